// Labels pods with the team of their namespace, and rejects pods of namespaces that have none.
import { note } from "podloom:mutator/host@0.1.0";
import { namespaceLabel } from "podloom:mutator/request@0.1.0";

const label = "/metadata/labels/team";

export const plugin = {
  describe() {
    return {
      name: "team-label",
      version: "0.1.0",
      summary: "Labels pods with the team of their namespace",
      configSchema: "",
      reads: [],
      writes: [label],
    };
  },

  validateConfig() {},

  mutate(pod) {
    const team = namespaceLabel("team");
    if (team === undefined) {
      throw { tag: "denied", val: "the namespace has no label team" };
    }
    if (pod.get(label) === undefined) {
      pod.set(label, JSON.stringify(team));
    } else {
      note("the pod names a team itself");
    }
  },
};
