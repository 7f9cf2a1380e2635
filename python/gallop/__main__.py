"""python -m gallop: runs the program gallop, which comes with the package."""
import os
import sys


def program() -> str:
    """Returns the path of the program."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "gallop")


def main() -> None:
    os.execv(program(), ["gallop", *sys.argv[1:]])


if __name__ == "__main__":
    main()
