import { nextSeed } from '../../../core/kit/base/next-seed.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { serveRequests } from '../../cluster/worker-process.ts'
import { type FleetCounts, LoadDevice, type SimulatedFleet } from './device.ts'

/** What the benchmark asks of a process that holds devices; each is answered with a `LoadReply`. */
export type LoadRequest =
  | { readonly type: 'open'; readonly fleet: Omit<SimulatedFleet, 'random' | 'counts'> }
  /** Starts devices at random times within `withinMs`. */
  | { readonly type: 'start'; readonly ids: readonly string[]; readonly withinMs: number }
  /** Replies with what the devices have done since the last `take`. */
  | { readonly type: 'take' | 'count' }

export interface LoadReply extends FleetCounts {
  /** Devices that are connected and subscribed, and whose state the broker has. */
  readonly established: number
}

const nothing = (): FleetCounts => ({ attempts: 0, refused: 0, unreached: 0, lost: 0, samples: 0, jobs: 0, pubackMs: [] })

const devices: LoadDevice[] = []
const random = seededRandom(nextSeed())
const counts = nothing()
let fleet: SimulatedFleet | undefined

serveRequests((request: LoadRequest): LoadReply => {
  if (request.type === 'open') fleet = { ...request.fleet, random, counts }
  if (request.type === 'start')
    for (const id of request.ids) {
      const device = new LoadDevice(fleet!, id)
      device.startIn(random.next() * request.withinMs)
      devices.push(device)
    }
  const established = devices.reduce((sum, device) => sum + Number(device.isEstablished), 0)
  const isTaken = request.type === 'take'
  const reply = { ...(isTaken ? counts : nothing()), established }
  if (isTaken) Object.assign(counts, nothing())
  return reply
})
