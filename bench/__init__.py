"""The benchmarks, and the raw limits they compare with."""
