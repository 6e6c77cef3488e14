# cloister on every Nomad client that has the package and says so in its metadata (client { meta { cloister = "yes" } }).
# Nomad places it and watches it; systemd runs it, from the package's unit, because what a workspace needs is more than
# a task driver gives: doc/fleets.md says what is missing in exec and in raw_exec.
#
# The driver must be allowed on the client: plugin "raw_exec" { config { enabled = true } }
job "cloister" {
  type        = "system"
  datacenters = ["*"]
  priority    = 80

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  constraint {
    attribute = "${meta.cloister}"
    value     = "yes"
  }

  # One client after the other; the unit drains by itself (drain_time).
  update {
    max_parallel = 1
    stagger      = "1m"
  }

  group "cloister" {
    restart {
      attempts = 5
      interval = "10m"
      delay    = "15s"
      mode     = "delay"
    }

    # Ends when the unit does, and as it did.
    task "service" {
      driver = "raw_exec"

      config {
        command = "/usr/bin/systemctl"
        args    = ["start", "--wait", "cloister.service"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }

    # systemctl's end leaves the unit running.
    task "stop" {
      driver = "raw_exec"

      lifecycle {
        hook    = "poststop"
        sidecar = false
      }

      config {
        command = "/usr/bin/systemctl"
        args    = ["stop", "cloister.service"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
