"""One benchmark run from start to results; finished runs gathered, compared and set beside published ones."""
