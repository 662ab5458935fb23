"""Start a cluster from the installed package, subscribe, publish and check the match."""

from pubsub_cluster import Cluster, attr

if __name__ == "__main__":
    with Cluster() as cluster, cluster.client() as client:
        made = client.subscribe(attr("x") > 1)
        matches = client.publish([{"x": 2}, {"x": 1}])
        assert [part.tolist() for part in matches] == [[made.handle], []], matches
    print("the installed wheel starts a cluster and matches an event")
