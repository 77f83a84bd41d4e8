//! What the SDK reads as a quantity, a name, a key or a value is what a real API server accepts, and means the same.

use http::Request;
use kube::core::Status;
use podloom_syntax::{Quantity, names};
use podloom_tests::{Cluster, Scene, Seed, blackbox_on};
use serde_json::{Value, json};

/// How many random pairs of texts the server reads, compares and adds.
const PAIRS: usize = 1000;

/// How many of them one object has.
const PAIRS_AT_ONCE: usize = 50;

/// Asks the server to create an object, but not to keep it. Returns the object, or the status of the refusal.
#[expect(clippy::panic, reason = "a server that does not answer fails the test")]
pub(crate) async fn create(
    scene: &Scene,
    path: &str,
    object: &Value,
) -> Result<Value, Box<Status>> {
    let request = Request::post(format!("{path}?dryRun=All"))
        .header("Content-Type", "application/json")
        .body(serde_json::to_vec(object).unwrap())
        .unwrap();
    match scene.client.request(request).await {
        Ok(created) => Ok(created),
        Err(kube::Error::Api(refusal)) => Err(refusal),
        Err(error) => panic!("{path}: {error}"),
    }
}

fn one_of(seed: &mut Seed, texts: &[&str]) -> String {
    texts[seed.below(texts.len())].to_owned()
}

/// A number without anything superfluous: the server prints some numbers as they came, `+01.50` too.
fn plain_number(seed: &mut Seed) -> String {
    let limit = 10_usize.pow(1 + seed.below(7) as u32);
    let whole = seed.below(limit).to_string();
    let fraction = match seed.below(3) {
        0 => String::new(),
        _ => format!(".{}", seed.below(limit)),
    };
    let fraction = fraction
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned();
    format!("{}{whole}{fraction}", one_of(seed, &["", "", "-"]))
}

const SUFFIXES: [&str; 20] = [
    "n", "u", "m", "", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e0", "e3", "E6", "e-3", "E-2",
    "e4", "e+1", "e-9",
];

/// Rules that hold if what was written of two quantities is right. They run in the server.
const RULES: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sums.quantities.example.com}
spec:
  group: quantities.example.com
  names: {kind: Sums, plural: sums, singular: sums, listKind: SumsList}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          sums:
            type: array
            maxItems: 50
            items:
              type: object
              properties:
                left: {type: string, maxLength: 40}
                right: {type: string, maxLength: 40}
                valid: {type: array, maxItems: 2, items: {type: boolean}}
                order: {type: integer}
                sum: {type: string, maxLength: 40}
              x-kubernetes-validations:
              - rule: isQuantity(self.left) == self.valid[0] && isQuantity(self.right) == self.valid[1]
                messageExpression: "'valid: ' + self.left + ' ' + self.right"
              - rule: "!has(self.sum) || quantity(self.left).compareTo(quantity(self.right)) == self.order"
                messageExpression: "'order: ' + self.left + ' ' + self.right"
              - rule: "!has(self.sum) || quantity(self.left).add(quantity(self.right)).compareTo(quantity(self.sum)) == 0"
                messageExpression: "'sum: ' + self.left + ' ' + self.right + ' ' + self.sum"
"#;

/// A text that may be a quantity.
fn odd_text(seed: &mut Seed) -> String {
    let letters: Vec<char> = "0123456789+-.eEinumkKMGTP 5".chars().collect();
    match seed.below(3) {
        0 => (0..seed.below(8))
            .map(|_| letters[seed.below(letters.len())])
            .collect(),
        1 => {
            let sign = one_of(seed, &["", "+", "-"]);
            let whole = one_of(seed, &["", "0", "007", "1", "1000"]);
            let rest = one_of(seed, &["", ".", ".5", ".000", ".0000000001"]);
            let suffix = one_of(
                seed,
                &[
                    "", "Ki", "K", "m", "e", "e3", "E", "ei", "e-12", "Mi5", "Pi", "e+",
                ],
            );
            format!("{sign}{whole}{rest}{suffix}")
        }
        _ => plain_number(seed) + &one_of(seed, &SUFFIXES),
    }
}

/// A text that may be a quantity and begins with a number. Of texts without one, the server accepts some as 0.
fn numeric_text(seed: &mut Seed) -> String {
    loop {
        let text = odd_text(seed);
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(&text);
        let number = unsigned.strip_prefix('.').unwrap_or(unsigned);
        if number.starts_with(|first: char| first.is_ascii_digit()) {
            return text;
        }
    }
}

/// What we say of a pair of texts.
fn claim(left: &str, right: &str) -> Value {
    let parsed = [left, right].map(|text| text.parse::<Quantity>());
    let mut claim =
        json!({ "left": left, "right": right, "valid": parsed.map(|text| text.is_ok()) });
    // Beyond 2^60 the server keeps what we cut, as our documentation says.
    let is_small = |quantity: &Quantity| quantity.units().abs() < 1 << 60;
    if let [Ok(left), Ok(right)] = parsed
        && is_small(&left)
        && is_small(&right)
    {
        claim["order"] = json!(left.cmp(&right) as i8);
        claim["sum"] = json!(left + right);
    }
    claim
}

#[test]
fn quantities_are_read_compared_and_added_as_the_api_server_does() {
    blackbox_on(Cluster::without_operator, "quantities-sum", async |scene| {
        let mut seed = Seed::new("quantities-sum");
        scene.cluster.apply_text(RULES);
        scene.cluster.kubectl(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd/sums.quantities.example.com",
        ]);
        let mut added = 0;
        for _ in 0..PAIRS / PAIRS_AT_ONCE {
            let claims: Vec<Value> = (0..PAIRS_AT_ONCE)
                .map(|_| claim(&numeric_text(&mut seed), &numeric_text(&mut seed)))
                .collect();
            added += claims
                .iter()
                .filter(|claim| claim["sum"].is_string())
                .count();
            let object = json!({
                "apiVersion": "quantities.example.com/v1",
                "kind": "Sums",
                "metadata": { "name": "random" },
                "sums": claims,
            });
            let created = create(&scene, "/apis/quantities.example.com/v1/sums", &object).await;
            created.unwrap();
        }
        assert!(added > PAIRS / 4, "only {added} pairs are quantities");
        // The rules are in force.
        let mut wrong = claim("1Gi", "1G");
        wrong["sum"] = json!("2G");
        let object = json!({
            "apiVersion": "quantities.example.com/v1",
            "kind": "Sums",
            "metadata": { "name": "wrong" },
            "sums": [wrong],
        });
        let refusal = create(&scene, "/apis/quantities.example.com/v1/sums", &object).await;
        let refusal = refusal.unwrap_err();
        assert!(
            refusal.message.contains("sum: 1Gi 1G 2G"),
            "{}",
            refusal.message
        );
    });
}

/// Where a text stands in an object.
enum Place {
    LabelKey,
    LabelValue,
    AnnotationKey,
    ObjectName,
    ContainerName,
}

/// Whether the server accepts a text there.
#[expect(clippy::panic, reason = "any other refusal fails the test")]
async fn is_accepted(scene: &Scene, place: &Place, text: &str) -> bool {
    let namespace = &scene.namespace;
    let mut object =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "names" } });
    let mut path = format!("/api/v1/namespaces/{namespace}/configmaps");
    match place {
        Place::LabelKey => object["metadata"]["labels"] = json!({ text: "" }),
        Place::LabelValue => object["metadata"]["labels"] = json!({ "key": text }),
        Place::AnnotationKey => object["metadata"]["annotations"] = json!({ text: "" }),
        Place::ObjectName => object["metadata"]["name"] = json!(text),
        Place::ContainerName => {
            path = format!("/api/v1/namespaces/{namespace}/pods");
            object["kind"] = json!("Pod");
            object["spec"] = json!({
                "automountServiceAccountToken": false,
                "containers": [{ "name": text, "image": "example.com/app:1" }],
            });
        }
    }
    match create(scene, &path, &object).await {
        Ok(_) => true,
        Err(refusal) if refusal.code == 422 => false,
        Err(refusal) => panic!("{text}: {refusal:?}"),
    }
}

/// Texts of all kinds, at the limits of their lengths too.
pub(crate) fn texts() -> Vec<String> {
    let domain = [
        "a".repeat(63),
        "b".repeat(63),
        "c".repeat(63),
        "d".repeat(61),
    ]
    .join(".");
    let mut texts: Vec<String> = [
        "",
        "a",
        "A",
        "0",
        "a-b",
        "a_b",
        "a.b",
        "-a",
        "a-",
        ".a",
        "a.",
        "a..b",
        "a b",
        "ä",
        "a/b",
        "A/b",
        "a/B",
        "/a",
        "a/",
        "a/b/c",
        "a.b/c",
        "a..b/c",
        "a_b/c",
        "-a/b",
        "a/-b",
        "Example.COM/Team",
        "my-app.example.com",
    ]
    .map(str::to_owned)
    .into();
    for length in [63, 64, 253, 254] {
        texts.push("a".repeat(length));
        texts.push(format!("{}/a", "a".repeat(length)));
        texts.push(format!("a/{}", "a".repeat(length)));
    }
    texts.push(format!("{domain}/a"));
    texts.push(format!("{domain}e/a"));
    texts.push(domain);
    texts
}

#[test]
fn names_keys_and_values_are_accepted_as_by_the_api_server() {
    blackbox_on(Cluster::without_operator, "names", async |scene| {
        type Check = fn(&str) -> Result<(), &'static str>;
        let places: [(Place, Check); 5] = [
            (Place::LabelKey, names::label_key),
            (Place::LabelValue, names::label_value),
            (Place::AnnotationKey, names::annotation_key),
            (Place::ObjectName, names::dns_subdomain),
            (Place::ContainerName, names::dns_label),
        ];
        for (place, check) in &places {
            for text in &texts() {
                let accepted = is_accepted(&scene, place, text).await;
                assert_eq!(check(text).is_ok(), accepted, "{text}");
            }
        }
    });
}
