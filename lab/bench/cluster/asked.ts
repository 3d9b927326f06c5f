import { systemClock } from '../../../core/kit/base/clock.ts'
import { streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import type { BridgeNode } from '../../cluster/several-bridges.ts'

/** An answer that a client has asked a process of the bridge for. */
export interface AskedRun {
  readonly what: 'asked'
  readonly mode: Mode
  /** Why it has failed after its first text; null: it has not. */
  readonly broken: string | null
  /** The process that made it was killed, stopped or paused. */
  readonly isHit: boolean
}

/** In full, by the process that is asked; by a sketch, by the primary. */
const modes = ['full', 'sketch'] as const
type Mode = (typeof modes)[number]

/** A fault that has begun. */
export interface Fault {
  readonly atMs: number
  /** The process that it hits; undefined: none. */
  readonly node: string | undefined
}

const messages = [{ role: 'user' as const, content: 'How do I bake bread, and what may go wrong?' }]
const pauseMs = 250
/** For so long after a fault, answers of its process are hit too: one that was paused goes on with what it has begun. */
const recoveryMs = 30_000

/** One answer after the other of each process, in turn of each mode, until `stop`, and one of each at least. What fails before its text is asked again. */
export async function askUntil(
  stop: AbortSignal,
  nodes: ReadonlyMap<string, BridgeNode>,
  faults: readonly Fault[],
  signal: AbortSignal,
): Promise<AskedRun[]> {
  const runs: AskedRun[] = []
  /** @returns whether there was an answer */
  const ask = async (name: string, mode: Mode) => {
    const askedMs = systemClock.nowMs()
    const pieces: string[] = []
    const body = { messages, temperature: 0, max_tokens: 48, brim: { mode } }
    const onText = (piece: string) => void pieces.push(piece)
    const asked = streamAnswerFrom({ server: 'bridge', url: nodes.get(name)!.url }, body, signal, { onText })
    const broken = await asked.then(() => null, String)
    if (broken !== null && pieces.length === 0) return false
    const isHit = faults.some(({ atMs, node }) =>
      node === name ? atMs > askedMs - recoveryMs : node !== undefined && mode === 'sketch' && atMs > askedMs,
    )
    runs.push({ what: 'asked', mode, broken, isHit })
    return true
  }
  const askNode = async (name: string) => {
    for (let answers = 0; !stop.aborted || answers < modes.length; ) {
      if (await ask(name, modes[answers % modes.length]!)) answers += 1
      signal.throwIfAborted()
      await systemClock.sleep(pauseMs)
    }
  }
  await Promise.all([...nodes.keys()].map(askNode))
  return runs
}
