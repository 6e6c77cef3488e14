# cloister on every Nomad client that has the package and says so in its metadata (client { meta { cloister = "yes" } }).
# Nomad places and watches it. systemd runs it from the package's unit, because task drivers do not give workspaces all
# that they need: doc/fleets.md lists what exec and raw_exec lack.
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

  # Updates one client at a time. The unit drains itself (drain_time).
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

    # This task ends with the unit, and with the unit's result.
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

    # Ending systemctl does not stop the unit, so this task does.
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
