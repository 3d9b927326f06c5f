import { BrimError } from '../../core/kit/base/errors.ts'
import { answerBudget } from '../../core/model/engine/generate.ts'
import { HatExecutor } from './hat-executor.ts'
import type { HatOptions, HatRequest, HatRound } from './hat-options.ts'
import { open } from './reopen.ts'

/**
 * One private answer by the split model (HAT): prefill in chunks, then rounds of drafting on the device and verifying at
 * the bridge. Ends at an end-of-text token or after `maxTokens`. If link or bridge fails, the answer continues in another
 * session with the same tokens. On abort, or when the iteration is left, the current step ends and both sides free their KV.
 * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID before any work; OUT_OF_MEMORY, RUNTIME_FAILED, CANCELED, LINK_LOST; what `open` throws
 */
export async function* answerByHat(
  options: HatOptions,
  request: HatRequest,
  signal: AbortSignal,
): AsyncGenerator<HatRound, void> {
  answerBudget(request.prompt, request.maxTokens, options.dims)
  const { prefixes, wire, coders } = options
  const { resume, stream } = (await prefixes?.find(request.client, request.prompt)) ?? {}
  const first = {
    ...options,
    open: (until: AbortSignal) => options.open(until, { resume, wire, coders, early: true, answer: request.answer }),
  }
  const session = await open(first, signal).catch((error: unknown) => {
    stream?.release()
    throw signal.aborted ? canceled(signal, error) : error
  })
  let run: HatExecutor | undefined
  const close = () => run?.interrupt()
  signal.addEventListener('abort', close, { once: true })
  try {
    run = new HatExecutor(options, request, session, stream)
    for (;;) {
      const round = await run.next(signal)
      if (!round) return
      yield round
    }
  } catch (error) {
    throw signal.aborted ? canceled(signal, error) : error
  } finally {
    signal.removeEventListener('abort', close)
    const isGone = session.moved || (session.held === 0 && session.bridge === resume?.bridge)
    if (resume && isGone) prefixes?.forget(resume.handle)
    // Without a run there is nothing but the session.
    if (run) await run.close(signal.aborted ? undefined : prefixes)
    else session.close()
  }
}

/** The error of a canceled answer, whatever failed because of it or at the same time. */
function canceled({ reason }: AbortSignal, cause?: unknown): BrimError {
  const isNamed = reason instanceof BrimError && reason.code === 'CANCELED'
  return isNamed ? reason : new BrimError('CANCELED', 'the answer was canceled', { cause })
}
