;; Does what annotations of the pod ask for: do-a, do-b and so on, each with paths of its own.
(data (i32.const 1024) "/metadata/annotations/do-a\00")
(data (i32.const 1056) "/metadata/annotations/do-b\00")
(data (i32.const 1088) "/metadata/annotations/do-c\00")
(data (i32.const 1120) "/metadata/annotations/do-d\00")
(data (i32.const 1152) "/metadata/annotations/do-e\00")
(data (i32.const 1184) "/metadata/annotations/do-f\00")
(data (i32.const 1216) "/metadata/annotations/do-g\00")
(data (i32.const 1248) "/metadata/annotations/do-h\00")
(data (i32.const 1280) "/metadata/annotations/do-i\00")
(data (i32.const 1312) "/metadata/annotations/do-j\00")
(data (i32.const 1344) "/metadata/annotations/do-k\00")
(data (i32.const 2048) "/metadata/labels/a\00")
(data (i32.const 2080) "/metadata/labels/b\00")
(data (i32.const 2112) "/metadata/labels/seen\00")
(data (i32.const 2144) "/spec/nodeName\00")
(data (i32.const 2176) "/spec/hostNetwork\00")
(data (i32.const 2208) "/spec/containers\00")
(data (i32.const 2240) "/spec/containers/[name=proxy]/image\00")
(data (i32.const 2304) "/spec/containers/0/image\00")
(data (i32.const 2336) "/spec/volumes/-\00")
(data (i32.const 2368) "/metadata/labels/gone\00")
(data (i32.const 2400) "/spec/containers/0\00")
(data (i32.const 3072) "\22x\22\00")
(data (i32.const 3104) "{\22name\22:\22tmp\22,\22emptyDir\22:{}}\00")
(data (i32.const 3152) "{\22name\22:\22first\22}\00")
(data (i32.const 3200) "the node was not chosen\00")
(data (i32.const 3264) "it is on the network of its host\00")

;; Whether there is something at a path that may be read.
(func $has (param $pod i32) (param $path i32) (result i32)
  (if (result i32) (call $get (local.get $pod) (local.get $path))
    (then (i32.const 0))
    (else (i32.load8_u (i32.const 516)))))

(func $mutate (param $pod i32) (result i32)
  ;; a: fails without the grant.
  (if (call $has (local.get $pod) (i32.const 1024))
    (then (if (call $set (local.get $pod) (i32.const 2048) (i32.const 3072))
      (then (return (call $report (i32.const 1)))))))
  ;; b: does without.
  (if (call $has (local.get $pod) (i32.const 1056))
    (then (drop (call $set (local.get $pod) (i32.const 2080) (i32.const 3072)))))
  ;; c: only a note shows the difference.
  (if (call $has (local.get $pod) (i32.const 1088))
    (then (if (call $set (local.get $pod) (i32.const 2144) (i32.const 3072))
      (then (call $note (i32.const 3200))))))
  ;; d: a read decides.
  (if (call $has (local.get $pod) (i32.const 1120))
    (then (if (call $has (local.get $pod) (i32.const 2176))
      (then (drop (call $set (local.get $pod) (i32.const 2112) (i32.const 3072)))))))
  ;; e: the positions of a list decide.
  (if (call $has (local.get $pod) (i32.const 1152))
    (then (if (i32.eqz (call $keys (local.get $pod) (i32.const 2208)))
      (then (drop (call $set (local.get $pod) (i32.const 2112) (i32.const 3072)))))))
  ;; f, g: elements by name and by position.
  (if (call $has (local.get $pod) (i32.const 1184))
    (then (drop (call $set (local.get $pod) (i32.const 2240) (i32.const 3072)))))
  (if (call $has (local.get $pod) (i32.const 1216))
    (then (drop (call $set (local.get $pod) (i32.const 2304) (i32.const 3072)))))
  ;; h: a new element.
  (if (call $has (local.get $pod) (i32.const 1248))
    (then (drop (call $set (local.get $pod) (i32.const 2336) (i32.const 3104)))))
  ;; i: a removal.
  (if (call $has (local.get $pod) (i32.const 1280))
    (then (drop (call $remove (local.get $pod) (i32.const 2368)))))
  ;; j: an element before the others.
  (if (call $has (local.get $pod) (i32.const 1312))
    (then (drop (call $insert (local.get $pod) (i32.const 2400) (i32.const 3152)))))
  ;; k: a denial, after a read that makes no difference.
  (if (call $has (local.get $pod) (i32.const 1344))
    (then
      (drop (call $has (local.get $pod) (i32.const 2144)))
      (if (call $has (local.get $pod) (i32.const 2176))
        (then (return (call $reject (i32.const 0) (i32.const 3264)))))))
  (call $ok))
