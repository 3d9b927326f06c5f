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
  /** The same, sketched only where the bridge's plan has it. */
  readonly planned?: RemoteCandidate | undefined
  /** Whether `--server` names one: the bridge's own model is asked in the tokens of the split model, which may be missing. */
  readonly hasServer: boolean
}

/** Those that one answer may use: the small model, and one of the others. */
export interface AllowedWays {
  readonly local?: LocalCandidate | undefined
  /** Those to be preferred first. */
  readonly remotes: readonly RemoteCandidate[]
}

/**
 * The ways of answering that a mode allows. In `private`, and where the text is private, nothing but HAT and the small model is ever
 * among them, in `local` nothing but the small model. Only `auto` has several remote ones.
 * @param problem why there is no HAT
 * @throws FieldError REQUEST_INVALID naming `brim.mode` where a side is missing, or cannot answer the request; `problem`
 */
export function waysOf(mode: DeviceMode, request: AnswerRequest, candidates: Candidates, problem: () => BrimError): AllowedWays {
  const { slm, hat, hasServer } = candidates
  const { server, sketches, planned } = request.isPrivate ? withoutText : candidates
  const needed = (what: string, hint: string) =>
    new FieldError('REQUEST_INVALID', 'brim.mode', `the mode "${mode}" needs ${what}, and this device has none`, hint)
  const fallback = request.fallback === 'slm' ? slm : undefined
  switch (mode) {
    case 'private':
      if (!hat) throw problem()
      return { remotes: [hat], local: fallback }
    case 'local':
      if (!slm) throw needed(...smallModel)
      return { local: slm, remotes: [] }
    case 'cloud':
      if (request.isPrivate) throw textLeaves(mode)
      if (!server)
        throw hasServer
          ? problem()
          : needed('a server', 'start the agent with --server bridge, or --server and the URL of a server')
      if (isExcluded(server, request)) throw textOnly(server)
      return { remotes: [server], local: fallback }
    case 'sketch':
      if (request.isPrivate) throw textLeaves(mode)
      if (!sketches) throw needed('the bridge as its server', 'start the agent with --server bridge')
      if (isExcluded(sketches, request)) throw textOnly(sketches)
      return { remotes: [sketches], local: fallback }
    case 'auto': {
      // Sketches are free text.
      const ways = [server, hasForm(request) ? undefined : planned, hat].filter((way) => way !== undefined)
      const able = ways.filter((way) => !isExcluded(way, request))
      const reachable = able.filter(({ isReachable = true }) => isReachable)
      const remotes = reachable.length > 0 ? reachable : able
      if (!slm && remotes.length === 0) throw hasServer ? problem() : needed(...anyWay)
      return hasForm(request) ? oneForm(slm, remotes) : { local: slm, remotes }
    }
    default: {
      if (!slm) throw needed(...smallModel)
      const remote = server ?? hat
      if (!remote) throw hasServer ? problem() : needed('a server', 'start the agent with --server, or with --bundle for HAT')
      if (isExcluded(remote, request)) return { local: slm, remotes: [] }
      return hasForm(request) ? oneForm(slm, [remote]) : { local: slm, remotes: [remote] }
    }
  }
}

const withoutText: Pick<Candidates, 'server' | 'sketches' | 'planned'> = {}

const anyWay = ['a small model, a server or HAT', 'start the agent with --slm, --server or --bundle'] as const
const smallModel = ['a small model', 'start the agent with --slm <bundle folder>, or ask in the mode private'] as const

/** A server that takes text and returns text has no token ids, and may not go on with what it has not begun. */
const isExcluded = ({ endpoint, continues }: RemoteCandidate, request: AnswerRequest): boolean =>
  endpoint.model.tokenizer === undefined && (needsTokens(request) || (request.answered !== undefined && !continues))

const hasForm = ({ grammar, tools }: AnswerRequest): boolean => grammar !== undefined || tools !== undefined

/**
 * An answer with a form does not pass between models that write it differently: another server may break lines in JSON, and
 * chat templates have their own words for calls. Then the larger model answers alone.
 */
function oneForm(local: LocalCandidate | undefined, remotes: readonly RemoteCandidate[]): AllowedWays {
  const own = local && callFormatOf(local.endpoint.model)
  const [largest] = remotes
  if (!largest) return { local, remotes }
  const alike = remotes.filter(({ endpoint }) => own && callFormatOf(endpoint.model) === own)
  return alike.includes(largest) ? { local, remotes: alike } : { remotes: [largest] }
}

const callFormatOf = (model: TextModel | RemoteModel) => (model.tokenizer ? model.chatTemplate?.tools : undefined)

const textLeaves = (mode: DeviceMode) =>
  new FieldError(
    'REQUEST_INVALID',
    'brim.private',
    `in the mode "${mode}" the text leaves the device`,
    'ask in the mode auto or private, or leave brim.private out',
  )

const textOnly = ({ endpoint }: RemoteCandidate) =>
  new FieldError(
    'REQUEST_INVALID',
    'brim.mode',
    `${endpoint.model.name} runs on another server, which takes text and returns text`,
    'leave out logprobs, ignore_eos, token ids and continue_final_message, or choose another mode',
  )
