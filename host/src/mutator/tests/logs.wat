;; A plugin that logs one line for each pod.
(module
  (import "podloom:mutator/host@0.1.0" "log" (func $log (param i32 i32 i32)))
  (import "podloom:mutator/pods@0.1.0" "[resource-drop]pod" (func $drop (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "logs")
  (data (i32.const 32) "1.0.0")
  (data (i32.const 48) "looking at the pod")

  ;; Results need no memory from the host.
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (unreachable))

  ;; Name and version, each an address and a length; the rest is empty.
  (func (export "podloom:mutator/plugin@0.1.0#describe") (result i32)
    (i32.store (i32.const 128) (i32.const 16)) (i32.store (i32.const 132) (i32.const 4))
    (i32.store (i32.const 136) (i32.const 32)) (i32.store (i32.const 140) (i32.const 5))
    (i32.const 128))

  ;; The results of both are zeros: ok.
  (func (export "podloom:mutator/plugin@0.1.0#validate-config") (result i32) (i32.const 256))
  (func (export "podloom:mutator/plugin@0.1.0#mutate") (param $pod i32) (result i32)
    (call $log (i32.const 2) (i32.const 48) (i32.const 18))
    (call $drop (local.get $pod))
    (i32.const 256)))
