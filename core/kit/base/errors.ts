import { shownUrls } from './shown-url.ts'

/**
 * A failure that a person must act on: a stable code (listed in docs/errors.md), a message naming what failed, the
 * cause, and a hint with what to try. URLs in it lose their user and query, because errors are logged and shown to others. Expected outcomes are return values; impossible states throw a plain Error.
 */
export class BrimError extends Error {
  override readonly name = 'BrimError'
  readonly code: ErrorCode
  readonly hint: string | undefined
  /** Set where a retry may succeed. */
  readonly retryAfterMs: number | undefined

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; hint?: string | undefined; retryAfterMs?: number | undefined } = {},
  ) {
    super(shownUrls(message), 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.hint = options.hint === undefined ? undefined : shownUrls(options.hint)
    this.retryAfterMs = options.retryAfterMs
  }
}

/**
 * What a function returns, or its promise. What it throws is the cause of an error with this code; an error of ours is thrown as it is.
 * @throws BrimError
 */
export function orThrow<T>(run: () => T, code: ErrorCode, message: string, hint?: string): T {
  const fail = (cause: unknown): never => {
    throw cause instanceof BrimError ? cause : new BrimError(code, message, { cause, hint })
  }
  try {
    const result = run()
    return result instanceof Promise ? (result.catch(fail) as T) : result
  } catch (cause) {
    return fail(cause)
  }
}

/** Every error code, with the exit code of a command that fails with it. docs/errors.md explains each one. */
export const errorCodes = {
  // usage
  USAGE: 2,
  PREREQUISITE_MISSING: 2,
  // checkpoint → bundle
  CHECKPOINT_NOT_FOUND: 1,
  CHECKPOINT_INVALID: 1,
  ARCHITECTURE_UNSUPPORTED: 1,
  SAFETENSORS_INVALID: 1,
  GGUF_INVALID: 1,
  QUANTISATION_UNSUPPORTED: 1,
  TENSOR_MISSING: 1,
  TENSOR_UNEXPECTED: 1,
  TENSOR_MISMATCH: 1,
  VALUE_OUT_OF_RANGE: 1,
  VOCABULARY_MISMATCH: 1,
  SPLIT_OUT_OF_RANGE: 2,
  PRIVACY_UNREACHABLE: 1,
  TARGET_UNWRITABLE: 1,
  MACHINE_BUSY: 75,
  REPLAY_DIFFERS: 1,
  DISK_FULL: 1,
  BUNDLE_INVALID: 1,
  BUNDLE_CORRUPT: 1,
  BUNDLE_MISMATCH: 1,
  BUNDLE_UNAVAILABLE: 1,
  SIGNATURE_INVALID: 1,
  DOWNGRADE_REFUSED: 1,
  // hub
  HUB_UNAVAILABLE: 1,
  HUB_REFUSED: 1,
  HUB_NOT_FOUND: 1,
  HUB_INVALID: 1,
  // text
  TOKENIZER_INVALID: 1,
  CHAT_TEMPLATE_INVALID: 1,
  PROMPTS_INVALID: 1,
  GRAMMAR_INVALID: 2,
  GRAMMAR_TOO_COMPLEX: 2,
  // engine
  RUNTIME_UNAVAILABLE: 1,
  RUNTIME_FAILED: 1,
  PROVIDER_UNAVAILABLE: 1,
  PROVIDER_LOST: 1,
  OUT_OF_MEMORY: 1,
  CONTEXT_OVERFLOW: 1,
  CANCELED: 1,
  // identity
  ENROLL_REFUSED: 1,
  IDENTITY_INVALID: 1,
  IDENTITY_UNKNOWN: 1,
  NOT_AUTHORIZED: 1,
  FORBIDDEN: 1,
  QUOTA_EXCEEDED: 1,
  BUDGET_EXHAUSTED: 1,
  DEVICE_CLONED: 1,
  DEVICE_ID_TAKEN: 1,
  // wire and processes
  FRAME_INVALID: 1,
  MESSAGE_INVALID: 1,
  SESSION_UNKNOWN: 1,
  SESSION_REFUSED: 1,
  ATTESTATION_REFUSED: 1,
  PROTOCOL_VERSION: 1,
  LISTEN_REFUSED: 2,
  LISTEN_FAILED: 1,
  BRIDGE_UNREACHABLE: 1,
  BROKER_UNREACHABLE: 1,
  LINK_LOST: 1,
  UPSTREAM_FAILED: 1,
  QUEUE_FULL: 1,
  AGENT_UNREACHABLE: 3,
  API_KEY_INVALID: 1,
  REQUEST_INVALID: 2,
  MODEL_UNKNOWN: 1,
  ANSWER_UNKNOWN: 1,
  MODEL_MISSING: 1,
  STORE_FAILED: 1,
  STORE_DAMAGED: 1,
  STORAGE_FULL: 1,
  DATABASE_UNAVAILABLE: 1,
  NO_PRIMARY: 1,
  DISCLOSURE_UNRECORDED: 1,
  STATE_IN_USE: 1,
  BACKUP_INVALID: 1,
  // jobs
  JOB_UNKNOWN: 1,
  JOB_FAILED: 1,
  HEALTH_CHECK_FAILED: 1,
  RELEASE_INVALID: 1,
  RESTART_REQUIRED: 75,
  EXPANSION_FAILED: 1,
  // rollouts
  ROLLOUT_UNKNOWN: 1,
  ROLLOUT_FAILED: 1,
  // fleet
  DEVICE_UNKNOWN: 1,
  COMMAND_REFUSED: 1,
  COMMAND_EXPIRED: 1,
  CONFIG_INVALID: 2,
} as const satisfies Record<string, 1 | 2 | 3 | 75>

export type ErrorCode = keyof typeof errorCodes

/** Codes of reports about failures that are no BrimError: an unexpected error, and the end of a job's attempt. */
export const reportedCodes = ['INTERNAL', 'UNEXPECTED', 'DEVICE_LOST', 'TIMED_OUT'] as const
export type ReportedCode = (typeof reportedCodes)[number]

/** False for the code of a newer release, or of another server. */
export const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(errorCodes, code)

export const exitCodes = { ok: 0, failed: 1, usage: 2, unreachable: 3, restart: 75, interrupted: 130, terminated: 143 } as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** Exit code of a command that fails with this error; an unexpected error counts as a failed operation. */
export function exitCodeOf(error: unknown): ExitCode {
  return error instanceof BrimError ? errorCodes[error.code] : exitCodes.failed
}

interface ErrorJson {
  error: { code: string; message: string; hint?: string; cause?: string }
}

export function toErrorJson(error: unknown): ErrorJson {
  const cause = error instanceof Error && error.cause instanceof Error ? { cause: messageOf(error.cause) } : {}
  if (error instanceof BrimError)
    return {
      error: { code: error.code, message: error.message, ...(error.hint === undefined ? {} : { hint: error.hint }), ...cause },
    }
  const message = error instanceof Error ? messageOf(error) : String(error)
  return { error: { code: 'INTERNAL' satisfies ReportedCode, message, hint: reportIt, ...cause } }
}

const reportIt = 'this is a mistake in Brim: please report it, with the output of "brim doctor"'
/** Problems quoted of an object that a schema refuses. */
const maxIssues = 3

/** The message of an error. That of a schema is a JSON document; its problems are listed in its place. */
export function messageOf(error: Error): string {
  if (!('issues' in error) || !Array.isArray(error.issues)) return shownUrls(error.message)
  const issues = error.issues as readonly { readonly path: readonly PropertyKey[]; readonly message: string }[]
  const described = issues
    .slice(0, maxIssues)
    .map(({ path, message }) => (path.length === 0 ? message : `"${path.map(String).join('.')}": ${message}`))
  return [...described, ...(issues.length > maxIssues ? [`and ${issues.length - maxIssues} more`] : [])].join('; ')
}

/** What failed, why, and what to try, in at most three lines: text of a bridge or a server must not add lines. */
export function toErrorText(error: unknown): string {
  const { code, message, hint, cause } = toErrorJson(error).error
  const lines = [`error: ${message} [${code}]`, cause && `  why: ${cause}`, hint && `  try: ${hint}`]
  return lines.flatMap((line) => (line ? [line.replace(/\s*\n\s*/g, ' ')] : [])).join('\n')
}
