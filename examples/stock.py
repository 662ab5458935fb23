"""Two subscribers and a publisher on stock-like data, with a cluster of their own."""

import asyncio
import random

from pubsub_cluster import AsyncClient, Cluster

WISHES = {"ann": "name = 'ACME' AND price < 97", "bob": "price > 110 AND volume >= 500"}


async def subscribe(client: AsyncClient, owner: str, expression: str) -> None:
    await client.subscribe(expression, owner=owner)
    await client.listen(owner, on_notification=lambda told: print(f"{owner} hears of {told.event}"))


async def main() -> None:
    with Cluster() as cluster:
        async with AsyncClient(cluster.data_dir) as subscribers, AsyncClient(cluster.data_dir) as publisher:
            await asyncio.gather(*[subscribe(subscribers, *wish) for wish in WISHES.items()])
            price = {"ACME": 100.0, "BOLT": 100.0, "CRUX": 100.0}
            for _ in range(40):
                price = {name: round(last * random.uniform(0.94, 1.06), 2) for name, last in price.items()}
                quotes = [{"name": n, "price": p, "volume": random.randrange(999)} for n, p in price.items()]
                matches = await publisher.publish(quotes, answer="counts")
                print(f"{len(matches)} quotes published, {matches.match_count} matches")
            await asyncio.sleep(0.5)  # for what is still on its way


random.seed(1)
asyncio.run(main())
