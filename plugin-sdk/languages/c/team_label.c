// Labels pods with the team of their namespace, and rejects pods of namespaces that have none.
#include <stdlib.h>
#include <string.h>

#include "mutator.h"

static const char LABEL[] = "/metadata/labels/team";

// A string for an argument. The call only reads it.
static mutator_string_t text(const char *s) {
  mutator_string_t string;
  mutator_string_set(&string, s);
  return string;
}

// A string for a result. It belongs to the caller, so it is a copy.
static mutator_string_t copy(const char *s) {
  mutator_string_t string;
  mutator_string_dup(&string, s);
  return string;
}

static bool deny(exports_podloom_mutator_plugin_rejection_t *rejection, const char *reason) {
  rejection->tag = EXPORTS_PODLOOM_MUTATOR_PLUGIN_REJECTION_DENIED;
  rejection->val.denied = copy(reason);
  return false;
}

// Each case of an access error has a text, which says what is wrong and what to do.
static bool fail(exports_podloom_mutator_plugin_rejection_t *rejection,
                 podloom_mutator_pods_access_error_t error) {
  rejection->tag = EXPORTS_PODLOOM_MUTATOR_PLUGIN_REJECTION_FAILED;
  rejection->val.failed = error.val.forbidden;
  return false;
}

// JSON of a text without characters that JSON escapes, such as the value of a label.
static mutator_string_t quoted(mutator_string_t plain) {
  mutator_string_t json = {malloc(plain.len + 2), plain.len + 2};
  if (json.ptr == NULL) abort();
  json.ptr[0] = '"';
  memcpy(json.ptr + 1, plain.ptr, plain.len);
  json.ptr[plain.len + 1] = '"';
  return json;
}

void exports_podloom_mutator_plugin_describe(exports_podloom_mutator_plugin_description_t *ret) {
  mutator_string_t *writes = malloc(sizeof *writes);
  if (writes == NULL) abort();
  *writes = copy(LABEL);
  *ret = (exports_podloom_mutator_plugin_description_t){
      .name = copy("team-label"),
      .version = copy("0.1.0"),
      .summary = copy("Labels pods with the team of their namespace"),
      .writes = {writes, 1},
  };
}

bool exports_podloom_mutator_plugin_validate_config(mutator_list_string_t *complaints) {
  (void)complaints;
  return true;
}

bool exports_podloom_mutator_plugin_mutate(exports_podloom_mutator_plugin_borrow_pod_t pod,
                                           exports_podloom_mutator_plugin_rejection_t *rejection) {
  mutator_string_t key = text("team"), path = text(LABEL), team;
  if (!podloom_mutator_request_namespace_label(&key, &team)) {
    return deny(rejection, "the namespace has no label team");
  }
  mutator_option_string_t present;
  podloom_mutator_pods_access_error_t error;
  if (!podloom_mutator_pods_method_pod_get(pod, &path, &present, &error)) {
    return fail(rejection, error);
  }
  if (present.is_some) {
    mutator_string_t note = text("the pod names a team itself");
    podloom_mutator_host_note(&note);
    return true;
  }
  mutator_string_t value = quoted(team);
  return podloom_mutator_pods_method_pod_set(pod, &path, &value, &error) || fail(rejection, error);
}
