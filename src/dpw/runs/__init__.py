"""One benchmark run from start to results, and finished runs gathered, compared and set beside published figures."""
