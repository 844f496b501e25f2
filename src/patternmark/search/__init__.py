"""Search: which of many keys marked a sequence, and where in it marked stretches lie."""
