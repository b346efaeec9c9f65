import json
from urllib.request import urlopen

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy


def test_models() -> None:
    container = (
        DockerContainer("llm-understudy:0.2.0")
        .with_command("serve --host 0.0.0.0 --timing none --served-model-name m")
        .with_exposed_ports(8000)
        .waiting_for(HttpWaitStrategy(8000, "/health"))
    )
    with container as server:
        url = f"http://{server.get_container_host_ip()}:{server.get_exposed_port(8000)}/v1"
        models = json.load(urlopen(f"{url}/models"))
        assert [model["id"] for model in models["data"]] == ["m"]
