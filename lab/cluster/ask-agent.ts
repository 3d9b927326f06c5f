import { systemClock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { type AnswerBody, streamAnswerFrom } from '../../core/wire/openai/client.ts'
import type { BrimReport } from '../../core/wire/openai/responses.ts'

/** An answer as its client received it. */
interface ClientAnswer {
  readonly text: string
  /** When the request was sent, and when each non-empty piece of text arrived, in ms on the system clock. */
  readonly sentMs: number
  readonly arrivedMs: readonly number[]
  readonly report: BrimReport & { readonly tokenIds: readonly number[] }
}

/**
 * Asks an agent's API for an answer with its token ids.
 * @throws BrimError LINK_LOST with the agent's own message and code
 */
export async function askAgent(
  apiUrl: string,
  body: AnswerBody,
  signal: AbortSignal,
  onText: (piece: string) => void = () => {},
): Promise<ClientAnswer> {
  const sentMs = systemClock.nowMs()
  const arrivedMs: number[] = []
  const received = (piece: string) => {
    arrivedMs.push(systemClock.nowMs())
    onText(piece)
  }
  try {
    const { text, report } = await streamAnswerFrom(
      { server: 'agent', url: apiUrl },
      { ...body, brim: { token_ids: true } },
      signal,
      { onText: received },
    )
    const { tokenIds } = report
    if (!tokenIds) throw new BrimError('LINK_LOST', 'the answer came without its token ids')
    return { text, sentMs, arrivedMs, report: { ...report, tokenIds } }
  } catch (error) {
    if (!(error instanceof BrimError) || error.code === 'LINK_LOST') throw error
    throw new BrimError('LINK_LOST', `the agent failed: ${error.message} [${error.code}]`, { cause: error })
  }
}
