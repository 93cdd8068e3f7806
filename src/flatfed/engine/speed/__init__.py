"""The same numbers sooner: dead taps left out, small convolutions as products, recorded steps, seeds as rows."""
