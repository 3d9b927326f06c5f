import { existsSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { json as jsonOf } from 'node:stream/consumers'
import type { z } from 'zod'
import { BrimError, orThrow } from '../../core/kit/base/errors.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { accessOf, type BridgeAccess, type BridgeOptions } from '../../core/kit/login/bridge-access.ts'
import { readLogins } from '../../core/kit/login/logins.ts'
import { askServer, type BrimServer, notOurs } from '../../core/wire/openai/ask-server.ts'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import {
  type EventOf,
  type Operation,
  type ParamsOf,
  type QueryValues,
  type ResponseOf,
  urlOf,
} from '../../core/wire/protocol/http/operation.ts'

import { localBridgeDir } from './state-dir.ts'

const sameRelease = 'update the bridge and this machine to the same release'

/** Parameters of the path, query, and body of a request. */
type Arguments<O extends Operation> = {
  readonly query?: QueryValues
  readonly body?: O extends { body: infer Body extends z.ZodType } ? z.input<Body> : undefined
} & (keyof ParamsOf<O> extends never ? { readonly params?: undefined } : { readonly params: ParamsOf<O> })

/** A value as the bridge sent it, for --json, and as we read it: fields of newer bridges are left out. */
export interface Received<T> {
  readonly raw: unknown
  readonly value: T
}

/** Carries out operations: over HTTP, or in the state folder of a bridge. */
export type RequestClient = Pick<BridgeClient, 'call'>

/** HTTP client of a bridge. @throws BrimError BRIDGE_UNREACHABLE, MESSAGE_INVALID, IDENTITY_INVALID, and the bridge's own errors */
export class BridgeClient {
  readonly #bridge: BrimServer
  readonly #signal: AbortSignal

  constructor(access: BridgeAccess, signal: AbortSignal) {
    this.#bridge = { server: 'bridge', ...access }
    this.#signal = signal
  }

  get url(): string {
    return this.#bridge.url
  }

  async call<O extends Operation>(operation: O, args: Arguments<O>): Promise<Received<ResponseOf<O>>> {
    const response = await this.#request(operation, args)
    const raw: unknown = await jsonOf(response).catch((cause: unknown) => {
      this.#signal.throwIfAborted()
      throw notOurs(this.#bridge, response, cause)
    })
    return { raw, value: this.#read(operation.response, raw) as ResponseOf<O> }
  }

  /** Sends bytes in place of JSON. */
  async upload<O extends Operation>(operation: O, args: Arguments<O>, bytes: Uint8Array): Promise<ResponseOf<O>> {
    const response = await this.#request(operation, args, {}, bytes)
    return this.#read(operation.response, await jsonOf(response)) as ResponseOf<O>
  }

  /** The events of an operation's stream, until it ends or breaks. */
  async *events<O extends Operation>(operation: O, args: Arguments<O>): AsyncGenerator<Received<EventOf<O>>> {
    const response = await this.#request(operation, args, { accept: 'text/event-stream' })
    for await (const data of readSse(response)) {
      const raw = readJson(data)
      yield { raw, value: this.#read(operation.event, raw) as EventOf<O> }
    }
  }

  #read(schema: z.ZodType | undefined, raw: unknown): unknown {
    const parsed = schema?.safeParse(raw)
    if (!parsed || parsed.success) return parsed?.data
    const [issue] = parsed.error.issues
    throw new BrimError('MESSAGE_INVALID', `the bridge sent an unexpected ${issue?.path.join('.')}: ${issue?.message}`, {
      hint: sameRelease,
    })
  }

  #request<O extends Operation>(
    operation: O,
    { params, query, body }: Arguments<O>,
    headers: Record<string, string> = {},
    bytes?: Uint8Array,
  ): Promise<IncomingMessage> {
    const { method } = operation
    return askServer(this.#bridge, urlOf(operation, params ?? ({} as ParamsOf<O>), query), {
      method,
      headers,
      ...(method === 'POST' ? { body: bytes ?? JSON.stringify(body ?? {}) } : {}),
      signal: this.#signal,
    })
  }
}

/** @throws BrimError MESSAGE_INVALID */
function readJson(data: string): unknown {
  return orThrow(() => JSON.parse(data), 'MESSAGE_INVALID', 'the bridge sent an event that is not JSON', sameRelease)
}

/** @throws BrimError USAGE, IDENTITY_INVALID, STORE_FAILED */
export const bridgeClient = async (options: BridgeOptions, io: Io): Promise<BridgeClient> =>
  new BridgeClient((await localAccess(options, io)) ?? (await accessOf(options, io)), io.signal)

/** For the audit log. */
export const userOf = ({ env }: Io): string => env.SUDO_USER || env.USER || 'unknown'

/** Where there is neither option nor login: the bridge that runs on this machine, for a user who may write its state folder. */
async function localAccess({ bridgeUrl, keyFile }: BridgeOptions, io: Io): Promise<BridgeAccess | undefined> {
  // A key that is given goes only to a bridge that is named: the address is that of another user, where root runs the command.
  if (bridgeUrl !== undefined || keyFile !== undefined || readLogins(io).current !== null) return undefined
  const folder = localBridgeDir(undefined, io)
  if (!existsSync(folder)) return undefined
  const { readAddress, localKey } = await import('../identity/local-access.ts')
  const { asOwner } = await import('../../core/kit/store/as-owner.ts')
  return asOwner(folder, () => {
    const address = readAddress(folder)
    return address && { ...address, key: localKey(folder, userOf(io)) }
  })
}
