import { pino } from 'pino'
import { DataConnection } from '../../../agent/link/data-connection.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import type { HatCluster } from './cluster.ts'
import { memoryDisclosures } from './memory-disclosures.ts'

/** Sessions, positions of context of each, tokens that each decodes per turn, turns. */
const batch = { sessions: 16, context: 256, tokens: 8, turns: 8, warmUp: 1 } as const

/** Time of one turn, the tokens of all sessions, in ms. */
export interface BatchTimes {
  /** All sessions decode at the same time. */
  readonly togetherMs: readonly number[]
  /** Sessions decode one after the other. */
  readonly inTurnMs: readonly number[]
}

/**
 * Measures what a bridge gains by packing many sessions' tokens into one step: sessions decode the same tokens at the same
 * time and one after the other. The client connects to the bridge itself, and computes nothing: links and devices take no time.
 */
export async function timeBatch(cluster: HatCluster, modelId: string, width: number, signal: AbortSignal): Promise<BatchTimes> {
  const times = { togetherMs: [] as number[], inTurnMs: [] as number[] }
  const logger = pino({ level: 'silent' })
  const disclosures = memoryDisclosures(logger)
  const machine = { clock: systemClock, random: seededRandom(1), speed: new DeviceSpeed(), disclosures, logger }
  const connection = await DataConnection.connect({ ...machine, url: cluster.dataUrl, device: 'batch', birth: 1 }, signal)
  const open = async () => {
    const session = await connection.open(modelId, signal)
    let base = 0
    /** Sends rows; resolves when the deep state of the last one has arrived. */
    return async (rows: number) => {
      // Ones in fp16; the time of a step does not depend on values.
      await session.exchange(base, { rows, width, half: new Uint16Array(rows * width).fill(0x3c00) }, 1)
      base += rows
    }
  }
  try {
    const sessions = await Promise.all(Array.from({ length: batch.sessions }, open))
    await Promise.all(sessions.map((send) => send(batch.context)))
    const decode = async (send: (typeof sessions)[number]) => {
      for (let token = 0; token < batch.tokens; token++) await send(1)
    }
    for (let turn = 0; turn < batch.warmUp + batch.turns; turn++) {
      signal.throwIfAborted()
      const startedMs = performance.now()
      await Promise.all(sessions.map(decode))
      const togetherMs = performance.now()
      for (const session of sessions) await decode(session)
      const endedMs = performance.now()
      if (turn < batch.warmUp) continue
      times.togetherMs.push(togetherMs - startedMs)
      times.inTurnMs.push(endedMs - togetherMs)
    }
    return times
  } finally {
    connection.close()
  }
}
