int nameless;
