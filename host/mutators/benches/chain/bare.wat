;; A plugin that leaves every pod as it is.
(module
  (import "podloom:mutator/pods@0.1.0" "[resource-drop]pod" (func $drop (param i32)))
  (memory (export "memory") 1)
  ;; The description: pointers and lengths of name, version, summary, configuration schema, reads and writes.
  (data (i32.const 16)
    "\60\00\00\00\04\00\00\00"
    "\64\00\00\00\05\00\00\00"
    "\69\00\00\00\0e\00\00\00"
    "\60\00\00\00\00\00\00\00"
    "\60\00\00\00\00\00\00\00"
    "\60\00\00\00\00\00\00\00")
  (data (i32.const 96) "bare0.1.0Nothing at all")
  (func (export "podloom:mutator/plugin@0.1.0#describe") (result i32) i32.const 16)
  ;; At 128 there are zeroes: the result ok.
  (func (export "podloom:mutator/plugin@0.1.0#validate-config") (result i32) i32.const 128)
  (func (export "podloom:mutator/plugin@0.1.0#mutate") (param i32) (result i32)
    local.get 0
    call $drop
    i32.const 128)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable))
