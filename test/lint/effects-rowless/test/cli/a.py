def files_are_read():
    call("run", "-f", "x")


def models_are_loaded():
    call("run", "--model", "x")
