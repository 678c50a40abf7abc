"""An upgrade from an earlier version, whose migration fails at first."""

import pytest

from tests.cluster.conftest import CHART, arguments, route
from tests.cluster.full.conftest import EARLIER
from tests.cluster.test_installation import COMPONENTS
from tests.support.cluster import Cluster, CommandFailed
from tests.support.turns_under_load import CALLERS, under_load


def sql(cluster: Cluster, release: str, statement: str) -> str:
    """Run a statement as the database's administrator; return what it prints."""
    (database,) = cluster.pods(release, "database")
    psql = ("psql", "--host=/var/run/postgresql", "--username=postgres", "--dbname=e3rg", "--tuples-only")
    return cluster.kubectl("exec", database, "--", *psql, f"--command={statement}").strip()


def images(cluster: Cluster, release: str) -> set[str]:
    """Return the tags of the images that the components' pods run."""
    pods = [cluster.get("pod", pod) for component in COMPONENTS for pod in cluster.pods(release, component)]
    return {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods}


def test_a_migration_that_fails_leaves_the_earlier_version_serving_and_no_turn_fails(
    cluster: Cluster, previous: str, address: str
) -> None:
    upgrade = ("upgrade", previous, str(CHART), *arguments(*route(), *EARLIER[1:], "image.tag=later"), "--wait")
    with under_load(address) as load:
        load.wait_for(CALLERS)
        sql(cluster, previous, "CREATE TABLE moods (name text)")  # The migration makes a table of this name.
        with pytest.raises(CommandFailed, match="pre-upgrade hooks failed"):
            cluster.helm(*upgrade, "--timeout=40s")
        assert "moods" in cluster.kubectl("logs", f"job/{previous}-migrate")
        assert images(cluster, previous) == {"previous"}
        load.wait_for(CALLERS)

        sql(cluster, previous, "DROP TABLE moods")
        cluster.helm(*upgrade, "--timeout=8m")
        assert sql(cluster, previous, "SELECT version_num FROM alembic_version") == "9001"
        assert images(cluster, previous) == {"later"}
        load.wait_for(CALLERS)
        upgraded = len(load.outcomes)

        cluster.helm("rollback", previous, "1", "--wait", "--timeout=8m")
        assert images(cluster, previous) == {"previous"}
        load.wait_for(CALLERS)
    print(f"{upgraded} turns until the upgrade was done, {len(load.outcomes)} with the rollback; lost: {load.lost}")
    assert load.lost == []
