//! What the plugin does, judged by an independent reading of the Pod Security Standards.
