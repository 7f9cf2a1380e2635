/* crooked.c - not as the formatter leaves it. */
int crooked_add( int a,int b ) { return a+b ; }
