import type { Clock } from '../../../core/kit/base/clock.ts'
import type { Host } from '../host.ts'
import type { Sample, Source } from '../sample.ts'

const folder = '/sys/class/net'

interface Counters {
  readonly rx: number
  readonly tx: number
  readonly atMs: number
}

/** Hardware interfaces, and their traffic since the previous sample. Addresses are not reported. */
export function network(host: Host, clock: Clock): Source {
  let last: ReadonlyMap<string, Counters> = new Map()

  async function readInterface(name: string, counted: Map<string, Counters>): Promise<Sample['network'][string] | undefined> {
    const path = `${folder}/${name}`
    const [device, wireless] = await Promise.all([host.list(`${path}/device`), host.list(`${path}/wireless`)])
    if (device.length === 0) return undefined
    const [state, speed, rx, tx] = await Promise.all([
      host.text(`${path}/operstate`),
      host.number(`${path}/speed`),
      host.number(`${path}/statistics/rx_bytes`),
      host.number(`${path}/statistics/tx_bytes`),
    ])
    const before = last.get(name)
    const now = rx === undefined || tx === undefined ? undefined : { rx, tx, atMs: clock.nowMs() }
    if (now) counted.set(name, now)
    return {
      kind: wireless.length > 0 ? 'wifi' : name.startsWith('ww') ? 'cellular' : 'ethernet',
      isUp: isUp(state?.trim()),
      // -1 means no link.
      linkMbitPerS: speed !== undefined && speed > 0 ? speed : null,
      rxBytesPerS: now && before ? rate(now.rx - before.rx, now.atMs - before.atMs) : null,
      txBytesPerS: now && before ? rate(now.tx - before.tx, now.atMs - before.atMs) : null,
    }
  }

  return {
    name: 'network',
    async read() {
      const counted = new Map<string, Counters>()
      const names = await host.list(folder)
      const found = await Promise.all(names.map(async (name) => [name, await readInterface(name, counted)] as const))
      last = counted
      return { network: Object.fromEntries(found.flatMap(([name, seen]) => (seen ? [[name, seen]] : []))) }
    },
  }
}

/** "unknown": the driver does not report it. */
const isUp = (state: string | undefined): boolean | null => (state === undefined || state === 'unknown' ? null : state === 'up')

/** Counters restart at 0 when the interface restarts. */
function rate(bytes: number, ms: number): number | null {
  return bytes < 0 || ms <= 0 ? null : Math.round((bytes / ms) * 1_000)
}
