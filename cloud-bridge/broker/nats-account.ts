import {
  type Account,
  Algorithms,
  type ClaimsData,
  createAccount,
  createUser,
  decode,
  encode,
  encodeUser,
  fromPublic,
} from '@nats-io/jwt'
import { connect, jwtAuthenticator, type NatsConnection } from '@nats-io/transport-node'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { isUntrusted, trustHint } from '../../core/kit/base/untrusted-certificate.ts'
import type { TopicRules } from '../identity/acl.ts'
import { keyOf, type NatsAdmin } from './nats-admin.ts'

const answerTimeoutMs = 5_000
const retryMs = 1_000
const reconnectMs = 500
/** Two without a response, and the next node is tried. */
const pingMs = 5_000

export interface NatsAccountOptions {
  readonly admin: NatsAdmin
  /** Name of the connection in the cluster's reports. */
  readonly name: string
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * The account at a NATS cluster whose users are the bridge and its devices. A user's password is a JWT that names its topics and
 * is signed by a key of this process, so that nodes admit the user without asking anyone. What is revoked stands in the account's
 * own JWT, which each node stores.
 */
export class NatsAccount {
  readonly #options: NatsAccountOptions
  readonly #connection: NatsConnection
  /** Signs the users. The nodes accept no other, so that passwords of an earlier start are void. */
  readonly #signer = createAccount()
  /** User → its public key. */
  readonly #users = new Map<string, string>()
  /** Public key → the second at whose end its passwords are void. */
  readonly #revoked = new Map<string, number>()
  readonly #closing = new AbortController()
  #claims: ClaimsData<Account>
  #sent: Promise<void> = Promise.resolve()
  /** The next change of the account's JWT, until it is being sent. */
  #next: Promise<void> | undefined
  #sentS = 0

  /** @throws BrimError BROKER_UNREACHABLE, NOT_AUTHORIZED, CONFIG_INVALID */
  static async open(options: NatsAccountOptions): Promise<NatsAccount> {
    const connection = await connectSystem(options)
    try {
      const account = new NatsAccount(options, connection, await lookUp(connection, options.admin.account))
      await account.#after(account.#claims.iat)
      await account.#send()
      return account
    } catch (error) {
      await connection.close()
      throw error
    }
  }

  private constructor(options: NatsAccountOptions, connection: NatsConnection, claims: ClaimsData<Account>) {
    this.#options = options
    this.#connection = connection
    this.#claims = claims
  }

  /** A password of this user, valid until `revoke`. */
  async admit(user: string, { publish, subscribe }: TopicRules): Promise<string> {
    const key = this.#users.get(user) ?? createUser().getPublicKey()
    this.#users.set(user, key)
    await this.#after(this.#revoked.get(key) ?? 0)
    const permissions = {
      pub: { allow: publish.map(subjectOf) },
      sub: { allow: subscribe.map(subjectOf) },
      bearer_token: true,
      allowed_connection_types: ['MQTT' as const],
    }
    return encodeUser(user, fromPublic(key), fromPublic(this.#options.admin.account), permissions, { signer: this.#signer })
  }

  /** Ends the user's connection and voids its passwords so far, within two seconds where the cluster is reachable. */
  revoke(user: string): void {
    const key = this.#users.get(user)
    if (key === undefined) return
    this.#revoked.set(key, secondNow())
    this.#next ??= this.#sent.then(async () => {
      await this.#after(this.#sentS)
      this.#next = undefined
      await this.#sendUntilStored()
    })
    this.#sent = this.#next
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#connection.close()
    await this.#sent
  }

  async #sendUntilStored(): Promise<void> {
    const { clock, logger } = this.#options
    const { signal } = this.#closing
    for (let attempt = 1; !signal.aborted; attempt++) {
      try {
        return await this.#send()
      } catch (err) {
        if (!signal.aborted) logger[attempt === 1 ? 'error' : 'debug']({ err }, 'passwords not revoked at the broker, retrying')
        await clock.sleep(retryMs, signal).catch(() => {})
      }
    }
  }

  /** @throws BrimError BROKER_UNREACHABLE, CONFIG_INVALID */
  async #send(): Promise<void> {
    const { admin } = this.#options
    this.#sentS = secondNow()
    const nats = {
      ...this.#claims.nats,
      signing_keys: [this.#signer.getPublicKey()],
      revocations: Object.fromEntries(this.#revoked),
    }
    const jwt = await encode(Algorithms.v2, { ...this.#claims, nats }, keyOf(admin.operator))
    const answer = await ask(this.#connection, '$SYS.REQ.CLAIMS.UPDATE', jwt)
    if (!/"code":\s*200/.test(answer)) throw refused(`it does not store the account: ${answer}`)
  }

  /** Resolves in a later second than this one: nodes tell newer from older JWTs, and passwords, by whole seconds. */
  async #after(second: number): Promise<void> {
    if (secondNow() === second)
      await this.#options.clock.sleep(1_000 - (Date.now() % 1_000), this.#closing.signal).catch(() => {})
  }
}

const secondNow = () => Math.floor(Date.now() / 1_000)

/** The subject of a topic or filter of MQTT. Names of topics have no dots. */
const subjectOf = (topic: string): string => topic.replaceAll('/', '.').replaceAll('+', '*')

/** @throws BrimError BROKER_UNREACHABLE, NOT_AUTHORIZED */
async function connectSystem({ admin, name }: NatsAccountOptions): Promise<NatsConnection> {
  const user = createUser()
  const jwt = await encodeUser(name, user, keyOf(admin.system))
  const tls = admin.servers.some((url) => url.startsWith('tls:')) ? { tls: {} } : {}
  try {
    return await connect({
      servers: admin.servers,
      name,
      authenticator: jwtAuthenticator(jwt, user.getSeed()),
      maxReconnectAttempts: -1,
      reconnectTimeWait: reconnectMs,
      pingInterval: pingMs,
      // Announced addresses of other nodes are those of their own network.
      ignoreClusterUpdates: true,
      ...tls,
    })
  } catch (cause) {
    const servers = admin.servers.join(', ')
    if (/authoriz/i.test(String(cause)))
      throw new BrimError('NOT_AUTHORIZED', `the NATS cluster ${servers} rejects its administrator's keys`, {
        cause,
        hint: 'do its nodes include the file that brim bridge nats-keys has written beside this one?',
      })
    throw new BrimError('BROKER_UNREACHABLE', `the NATS cluster ${servers} cannot be reached`, {
      cause,
      hint: isUntrusted(cause)
        ? trustHint
        : 'the administrator file names the addresses of its nodes for NATS clients: docs/brokers.md',
    })
  }
}

/** The account as the cluster knows it: its limits may have been changed there. @throws BrimError BROKER_UNREACHABLE, CONFIG_INVALID */
async function lookUp(connection: NatsConnection, account: string): Promise<ClaimsData<Account>> {
  const jwt = await ask(connection, `$SYS.REQ.ACCOUNT.${account}.CLAIMS.LOOKUP`, '')
  let claims: ClaimsData<Account>
  try {
    claims = decode<Account>(jwt)
  } catch {
    throw refused(`it does not know the account ${account}`)
  }
  if (claims.iat > secondNow()) throw refused("its account is newer than this machine's clock")
  return claims
}

/** @throws BrimError BROKER_UNREACHABLE */
async function ask(connection: NatsConnection, subject: string, message: string): Promise<string> {
  try {
    return (await connection.request(subject, message, { timeout: answerTimeoutMs })).string()
  } catch (cause) {
    throw new BrimError('BROKER_UNREACHABLE', 'the NATS cluster does not answer', {
      cause,
      hint: 'do its nodes run with "resolver { type: full }"? docs/brokers.md',
    })
  }
}

const refused = (why: string) =>
  new BrimError('CONFIG_INVALID', `the NATS cluster cannot be administered: ${why}`, {
    hint: 'compare the nodes with docs/brokers/nats.conf',
  })
