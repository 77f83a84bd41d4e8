use serde_json::json;

use super::{API_VERSION, Recorded, Recording};
use crate::admission::answer::Answer;
use crate::admission::submit::Submission;

fn submission(name: &str) -> Submission {
    Submission {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        user: (name == "b").then(|| "me".to_owned()),
        pod: json!({ "metadata": {} }),
    }
}

#[test]
fn a_recording_is_read_as_it_was_written_whatever_came_first() {
    let directory = tempfile::tempdir().unwrap();
    let texts = [["a", "b"], ["b", "a"]].map(|names| {
        let mut recording = Recording::default();
        for name in names {
            let sent = submission(name);
            let answer = Answer::accepted(json!({}), vec!["old".to_owned()], &sent);
            recording.add(sent, answer).unwrap();
        }
        let file = directory.path().join("answers");
        recording.write(&file).unwrap();
        let read = Recorded::read(&file).unwrap();
        let sent: Vec<Submission> = read.entries().map(|(sent, _)| sent).collect();
        assert_eq!(sent, [submission("a"), submission("b")]);
        std::fs::read_to_string(&file).unwrap()
    });
    let [text, other] = texts;
    assert_eq!(text, other);

    let cut = text.lines().take(2).collect::<Vec<_>>().join("\n");
    let broken = text.replace("\"accepted\"", "\"adopted\"");
    for (text, expected) in [
        (String::new(), "not a recording of podloom admission record"),
        ("kind: List\n".to_owned(), "not a recording of"),
        (
            text.replace(API_VERSION, "podloom.dev/v9"),
            "a recording of version \"podloom.dev/v9\"",
        ),
        (
            cut,
            "1 answers are there, and 2 were recorded: record again",
        ),
        (broken, "line 2 is broken"),
    ] {
        let error = Recorded::of(text).err().unwrap();
        assert!(error.starts_with(expected), "{error}");
    }
}
