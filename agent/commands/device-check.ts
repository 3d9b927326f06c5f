import { tmpdir } from 'node:os'
import { pino } from 'pino'
import type { Check } from '../../core/commands/doctor-checks.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { type Host, openHost } from '../device/host.ts'
import { createSampler } from '../device/sampler.ts'

/** A line of `brim doctor`: the kind of device, and which figures its telemetry will have. */
export async function checkDevice(host: Host = openHost()): Promise<Check> {
  const sampler = createSampler({ host, clock: systemClock, logger: pino({ level: 'silent' }), stateDir: tmpdir() })
  const { device, load, temperatures, power, battery } = await sampler.sample(new AbortController().signal)
  const { kind, model, module, jetpack, l4t, os, powerMode } = device
  const release = jetpack === null ? l4t && `L4T ${l4t}` : `JetPack ${jetpack}`
  const known = Object.entries({ kind, model, module, release, os, powerMode }).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  )
  const senses = Object.entries({
    'GPU load': load.gpuPercent,
    temperatures: temperatures.hottestC,
    power: power.totalW,
    battery,
  }).flatMap(([what, value]) => (value === null ? [] : [what]))
  const what = known.map(([, word]) => word).join(', ')
  const detail = senses.length === 0 ? what : `${what}; measures ${senses.join(', ')}`
  return { name: 'device', status: 'ok', detail, values: { ...Object.fromEntries(known), senses } }
}
