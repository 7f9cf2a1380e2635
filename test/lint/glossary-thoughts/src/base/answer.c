/* answer.c - a name with a word that the glossary replaces; this comment has thoughts, too. */
static const char *const says = "thoughts";

int answer_thoughts_of(void)
{
    return says[0];
}
