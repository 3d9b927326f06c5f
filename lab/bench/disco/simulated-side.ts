import type { Simulation } from '../../simulate/kernel/simulation.ts'
import { PacedSide } from '../../simulate/modes/disco/paced-side.ts'
import { type DeviceProfile, deviceTtftMs } from '../../simulate/paper/disco/profiles.ts'
import type { ReplayRequest } from './workload.ts'

/** Prefill at k·l, then a token after each step. */
export function simulatedDevice(simulation: Simulation, profile: DeviceProfile): PacedSide {
  const tokenMs = 1_000 / profile.decodeTokensPerS
  return new PacedSide(simulation, (tokens) => ({ ttftMs: deviceTtftMs(profile, tokens), tokenMs }))
}

/** A server whose first request has the first latency, and each later one the second. */
export function simulatedServer(
  simulation: Simulation,
  { server, serverAgain }: Pick<ReplayRequest, 'server' | 'serverAgain'>,
): PacedSide {
  let isFirst = true
  return new PacedSide(simulation, () => {
    const latency = isFirst ? server : serverAgain
    isFirst = false
    return latency
  })
}
