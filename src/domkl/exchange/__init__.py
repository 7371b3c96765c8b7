"""What leaves a learner, and how what arrives is combined: over a graph, or over an inbox."""
