import { BrimError, messageOf } from './errors.ts'

export interface ErrorFields {
  readonly type: string
  readonly code?: string | number
  readonly message: string
  readonly hint?: string
  /** Messages of its causes, the nearest first. */
  readonly cause?: string
  /** Of unexpected errors only. */
  readonly stack?: string
}

/**
 * What the log shows of an error. Expected failures have no stack: our own errors, and those of the system, of TLS and of
 * MQTT, such as a refused connection. A stack says that there is a mistake in the code.
 */
export function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { code } = error as { code?: unknown }
  const hint = error instanceof BrimError ? error.hint : undefined
  const cause = causesOf(error)
  return {
    type: error.name,
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    message: textOf(error),
    ...(hint === undefined ? {} : { hint }),
    ...(cause === '' ? {} : { cause }),
    ...(isExpected(error) || error.stack === undefined ? {} : { stack: error.stack }),
  } satisfies ErrorFields
}

function isExpected(error: Error): boolean {
  if (error instanceof BrimError) return true
  // Node tries all addresses of a host.
  if (error instanceof AggregateError && error.errors.length > 0)
    return error.errors.every((one) => one instanceof Error && isExpected(one))
  const { code, syscall } = error as { code?: unknown; syscall?: unknown }
  // The number is a return code of MQTT.
  return (
    typeof syscall === 'string' || typeof code === 'number' || /^(ERR_SSL|ERR_TLS|CERT_|E[A-Z]+$)|_CERT/.test(String(code ?? ''))
  )
}

const textOf = (error: Error): string =>
  error.message === '' && error instanceof AggregateError ? error.errors.map(String).join(', ') : messageOf(error)

function causesOf(error: Error): string {
  const messages: string[] = []
  const seen = new Set<unknown>([error])
  for (let { cause } = error; cause instanceof Error && !seen.has(cause); { cause } = cause) {
    seen.add(cause)
    messages.push(textOf(cause))
  }
  return messages.join(': ')
}
