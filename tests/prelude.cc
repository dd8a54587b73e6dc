// Gives the precompiled prelude a library.
