"""Named workloads, rival matchers and the measurements that the documents quote."""
