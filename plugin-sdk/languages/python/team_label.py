"""Labels pods with the team of their namespace, and rejects pods of namespaces that have none."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.plugin import Description, Rejection_Denied
from wit_world.imports import host, pods, request

LABEL = "/metadata/labels/team"


class Plugin(exports.Plugin):
    def describe(self) -> Description:
        return Description(
            name="team-label",
            version="0.1.0",
            summary="Labels pods with the team of their namespace",
            config_schema="",
            reads=[],
            writes=[LABEL],
        )

    def validate_config(self) -> None:
        pass

    def mutate(self, pod: pods.Pod) -> None:
        team = request.namespace_label("team")
        if team is None:
            raise Err(Rejection_Denied("the namespace has no label team"))
        if pod.get(LABEL) is None:
            pod.set(LABEL, json.dumps(team))
        else:
            host.note("the pod names a team itself")
