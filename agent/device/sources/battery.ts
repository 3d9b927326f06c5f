import type { Clock } from '../../../core/kit/base/clock.ts'
import type { Host } from '../host.ts'
import { type Battery, batteryOf, parseTermuxBattery, type Supply } from '../parse/battery.ts'
import { occasionally } from '../program.ts'
import type { SamplePart, Source } from '../sample.ts'

const folder = '/sys/class/power_supply'

/** Batteries and power supplies, found by their type: names vary. */
export function linuxBattery(host: Host): Source {
  return {
    name: 'battery',
    async read() {
      const names = await host.list(folder)
      const battery = batteryOf(await Promise.all(names.map((name) => readSupply(host, `${folder}/${name}`))))
      return battery ? partOf(battery) : {}
    },
  }
}

/** While a battery discharges, its power is that of the whole device. */
function partOf(battery: Battery): SamplePart {
  const drains = battery.state === 'discharging' && battery.powerW !== null
  return { battery, ...(drains ? { power: { totalW: battery.powerW, scope: 'battery' } } : {}) }
}

async function readSupply(host: Host, path: string): Promise<Supply> {
  const word = async (file: string) => (await host.text(`${path}/${file}`))?.trim()
  const number = (file: string) => host.number(`${path}/${file}`)
  const type = await word('type')
  if (type !== 'Battery') return { type, online: await number('online') }
  const [scope, status] = await Promise.all([word('scope'), word('status')])
  const [capacity, energyFull, chargeFull, powerNow, currentNow, voltageNow, temp] = await Promise.all(
    ['capacity', 'energy_full', 'charge_full', 'power_now', 'current_now', 'voltage_now', 'temp'].map(number),
  )
  const full = energyFull ?? chargeFull
  return { type, scope, status, capacity, full, powerNow, currentNow, voltageNow, temp }
}

/** A program costs far more than reading a file. */
const termuxEveryMs = 60_000
/** The program hangs if its companion app is missing. */
const termuxTimeoutMs = 4_000

export function termuxBattery(host: Host, clock: Clock): Source {
  const plan = { program: 'termux-battery-status', args: [], timeoutMs: termuxTimeoutMs, everyMs: termuxEveryMs }
  const ask = occasionally(host, clock, plan)
  return {
    name: 'battery',
    async read(signal, warn) {
      const output = await ask(signal)
      if (output === undefined) return {}
      const battery = parseTermuxBattery(output)
      if (battery === undefined) warn('termux-battery-status')
      return battery ? { battery } : {}
    },
  }
}
