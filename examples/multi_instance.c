/* multi_instance.c - several engines, each in a process with cores of its own. One engine uses all cores well, and
 * shares the weights and the prefix cache among all requests; several engines pay where cores have memory of their
 * own (NUMA nodes), or where a request must not slow down another. usage: multi_instance [MODEL_DIR [N]] */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <gallop.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

enum { N_PROMPTS = 6, MOST = 64 };

static const char *const prompts[N_PROMPTS] = {"Once upon a time", "The cat sat", "One day",
                                               "The sun",          "A dog",       "In the park"};

/* Binds this process to part I of N of the processors that it may use. Returns the number of them. */
static int bind_to_part(int i, int n)
{
    cpu_set_t all, own;
    int count, at = 0;

    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return 0;
    count = CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            if (n > count || (at >= count * i / n && at < count * (i + 1) / n))
                CPU_SET(cpu, &own);
            at++;
        }
    return sched_setaffinity(0, sizeof(own), &own) == 0 ? CPU_COUNT(&own) : 0;
}

/* Answers every Nth prompt from prompt I on. Returns the status of the process. */
static int work(const char *model, int i, int n)
{
    struct gallop_options options;
    struct gallop_request request;
    struct gallop_event event;
    struct gallop *engine;
    char err[GALLOP_ERR_SIZE];
    int n_cores = bind_to_part(i, n), rc;

    gallop_options_init(&options); /* One thread for each core that the process may use. */
    options.model = model;
    rc = gallop_open(&engine, &options, err);
    for (int p = i; p < N_PROMPTS && rc == 0; p += n) {
        gallop_request_init(&request);
        request.text = prompts[p];
        request.sampling.max_new_tokens = 12;
        rc = gallop_submit(engine, &request, NULL, err);
        printf("instance %d, %d processors: %s|", i, n_cores, prompts[p]);
        while (rc == 0 && gallop_next(engine, &event))
            if (event.type == GALLOP_TEXT)
                fwrite(event.text, 1, event.text_len, stdout);
        printf("\n");
    }
    if (rc)
        fprintf(stderr, "instance %d: %s\n", i, err);
    gallop_close(engine);
    fflush(stdout); /* Standard output is a pipe or a file: a process writes all its lines at once. */
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    const char *model = argc > 1 ? argv[1] : DEMO;
    int n = argc > 2 ? atoi(argv[2]) : 2, n_failed = 0, status;

    if (n < 1 || n > MOST) {
        fprintf(stderr, "expected 1 to %d instances\n", MOST);
        return EXIT_FAILURE;
    }
    /* The processes are started before any engine is opened: threads do not survive a fork. */
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(work(model, i, n));
        n_failed += pid < 0;
    }
    while (wait(&status) > 0)
        n_failed += !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS;
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
