import { type AnswerRequest, needsTokens } from '../../core/answer/endpoint/endpoint.ts'
import type { RemoteModel, TextModel } from '../../core/answer/endpoint/text-model.ts'
import type { DeviceMode } from '../../core/kit/base/answer-modes.ts'
import type { BrimError } from '../../core/kit/base/errors.ts'
import { FieldError } from '../../core/wire/openai/api-error.ts'
import type { LocalCandidate, RemoteCandidate } from './candidate.ts'

/** What can write answers now; each absent where the device has none. */
export interface Candidates {
  readonly slm?: LocalCandidate | undefined
  readonly hat?: RemoteCandidate | undefined
  /** Of `--server`. */
  readonly server?: RemoteCandidate | undefined
  /** The bridge's sketched answers, where `--server bridge` lets it see questions. */
  readonly sketches?: RemoteCandidate | undefined
  /** Whether `--server` names one: the bridge's own model is asked in the tokens of the split model, which may be missing. */
  readonly hasServer: boolean
}

/** Those that one answer may use. */
export interface ChosenSides {
  readonly local?: LocalCandidate | undefined
  readonly remote?: RemoteCandidate | undefined
}

/**
 * The sides that a mode allows. In `private` nothing but HAT and the small model is ever among them, in `local` nothing but the
 * small model.
 * @param problem why there is no HAT
 * @throws FieldError REQUEST_INVALID naming `brim.mode` where a side is missing, or cannot answer the request; `problem`
 */
export function sidesOf(mode: DeviceMode, request: AnswerRequest, candidates: Candidates, problem: () => BrimError): ChosenSides {
  const { slm, hat, server, sketches, hasServer } = candidates
  const needed = (what: string, hint: string) =>
    new FieldError('REQUEST_INVALID', 'brim.mode', `the mode "${mode}" needs ${what}, and this device has none`, hint)
  const fallback = request.fallback === 'slm' ? slm : undefined
  switch (mode) {
    case 'private':
      if (!hat) throw problem()
      return { remote: hat, local: fallback }
    case 'local':
      if (!slm) throw needed(...smallModel)
      return { local: slm }
    case 'cloud':
      if (!server)
        throw hasServer
          ? problem()
          : needed('a server', 'start the agent with --server bridge, or --server and the URL of a server')
      if (isExcluded(server, request)) throw textOnly(server)
      return { remote: server, local: fallback }
    case 'sketch':
      if (!sketches) throw needed('the bridge as its server', 'start the agent with --server bridge')
      if (isExcluded(sketches, request)) throw textOnly(sketches)
      return { remote: sketches, local: fallback }
    default: {
      if (!slm) throw needed(...smallModel)
      const remote = server ?? hat
      if (!remote) throw hasServer ? problem() : needed('a server', 'start the agent with --server, or with --bundle for HAT')
      if (isExcluded(remote, request)) return { local: slm }
      return hasForm(request) ? oneForm(slm, remote) : { local: slm, remote }
    }
  }
}

const smallModel = ['a small model', 'start the agent with --slm <bundle folder>, or ask in the mode private'] as const

/** A server that takes text and returns text has no token ids, and may not go on with what it has not begun. */
const isExcluded = ({ endpoint, continues }: RemoteCandidate, request: AnswerRequest): boolean =>
  endpoint.model.tokenizer === undefined && (needsTokens(request) || (request.answered !== undefined && !continues))

const hasForm = ({ grammar, tools }: AnswerRequest): boolean => grammar !== undefined || tools !== undefined

/**
 * An answer with a form does not pass between models that write it differently: another server may break lines in JSON, and
 * chat templates have their own words for calls. Then the larger model answers alone.
 */
function oneForm(local: LocalCandidate, remote: RemoteCandidate): ChosenSides {
  const [own, other] = [callFormatOf(local.endpoint.model), callFormatOf(remote.endpoint.model)]
  return other && own === other ? { local, remote } : { remote }
}

const callFormatOf = (model: TextModel | RemoteModel) => (model.tokenizer ? model.chatTemplate?.tools : undefined)

const textOnly = ({ endpoint }: RemoteCandidate) =>
  new FieldError(
    'REQUEST_INVALID',
    'brim.mode',
    `${endpoint.model.name} runs on another server, which takes text and returns text`,
    'leave out logprobs, ignore_eos, token ids and continue_final_message, or choose another mode',
  )
