"""What a device never needs: experiments, the paper's tables, comparisons, benchmarks, reports."""
