use super::super::Numbering;

#[test]
fn documents_are_counted_as_people_count() {
    let text = "# a comment\n%YAML 1.2\n---\na: 1\n---\n\n--- # third\nb: 1\n";
    let mut numbering = Numbering::new(text);
    for (line, number) in [(3, 1), (4, 1), (6, 2), (8, 3), (9, 3)] {
        assert_eq!(numbering.document(line), number, "line {line}");
    }
    assert_eq!(Numbering::new("a: 1\n---\nb: 1\n").document(3), 2);
    assert_eq!(Numbering::new("{}").document(1), 1);
}
