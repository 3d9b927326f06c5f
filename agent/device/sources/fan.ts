import type { Host } from '../host.ts'
import type { Source } from '../sample.ts'

const hwmons = '/sys/class/hwmon'
const oldFan = '/sys/devices/pwm-fan'
const maxDuty = 255

/** The first fan. On a Jetson its speed and its duty cycle may be in different nodes. */
export function fan(host: Host): Source {
  return {
    name: 'fan',
    async read() {
      const folders = (await host.list(hwmons)).map((name) => `${hwmons}/${name}`)
      const names = await Promise.all(folders.map((folder) => host.text(`${folder}/name`)))
      const drivers = folders.filter((_, index) => /^pwm-?fan$/.test(names[index]?.trim() ?? ''))
      const duty = await first(host, [...drivers.map((folder) => `${folder}/pwm1`), `${oldFan}/target_pwm`])
      const files = ['rpm', 'rpm_measured', 'fan1_input']
      const rpm = await first(
        host,
        [...folders, oldFan].flatMap((folder) => files.map((file) => `${folder}/${file}`)),
      )
      if (duty === undefined && rpm === undefined) return {}
      const dutyPercent = duty === undefined ? null : Math.min(100, Math.round((duty / maxDuty) * 100))
      return { fan: { dutyPercent, rpm: rpm ?? null } }
    },
  }
}

async function first(host: Host, paths: readonly string[]): Promise<number | undefined> {
  const values = await Promise.all(paths.map((path) => host.number(path)))
  return values.find((value) => value !== undefined)
}
