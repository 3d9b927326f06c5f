import { randomBytes } from 'node:crypto'
import { connect, type MqttClient } from 'mqtt'
import { z } from 'zod'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import { isLoginRefused } from '../../core/wire/protocol/connack.ts'
import type { BrokerLogin } from './broker-secrets.ts'

const requestTopic = '$CONTROL/dynamic-security/v1'
const responseTopic = '$CONTROL/dynamic-security/v1/response'
/** Requests sent together. */
const maxBatch = 16
const answerTimeoutMs = 10_000

/** One of the plug-in's commands: https://mosquitto.org/documentation/dynamic-security/ */
export interface PluginCommand {
  readonly command: string
  readonly [field: string]: unknown
}

const PluginReply = z.object({
  command: z.string(),
  error: z.string().optional(),
  data: z.unknown().optional(),
  correlationData: z.string(),
})
const Answers = z.object({ responses: z.array(PluginReply.catch({ command: '', data: null, correlationData: '' })) })
export type PluginReply = z.infer<typeof PluginReply>

/** Errors of the plug-in that mean: the client or role is already as requested. */
const alreadyDone = /^(?:Client|Role) (?:not found|already exists)$/

export interface DynamicSecurity {
  readonly connected: boolean
  /**
   * Executes these commands in order, with none of another request in between.
   * @returns their answers, in the same order
   * @throws BrimError BROKER_UNREACHABLE; CONFIG_INVALID where the plug-in refuses a command
   */
  run(commands: readonly PluginCommand[]): Promise<PluginReply[]>
  close(): Promise<void>
}

interface Request {
  readonly commands: readonly PluginCommand[]
  readonly resolve: (answers: PluginReply[]) => void
  readonly reject: (error: unknown) => void
}

export interface DynamicSecurityOptions {
  readonly url: string
  readonly clientId: string
  readonly admin: BrokerLogin
  /** Time limit of the first connection; default: 10 s. */
  readonly connectTimeoutMs?: number | undefined
  /** The broker is connected again after an outage. */
  readonly onReconnect: () => void
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * mosquitto's dynamic-security plug-in, driven over MQTT. Reconnects by itself after an outage of the broker.
 * @throws BrimError BROKER_UNREACHABLE, NOT_AUTHORIZED, CONFIG_INVALID
 */
export async function connectDynamicSecurity(options: DynamicSecurityOptions): Promise<DynamicSecurity> {
  const { url, clientId, admin, clock, logger } = options
  const waiting = new Map<string, { resolve: (answers: PluginReply[]) => void; reject: (error: BrimError) => void }>()
  const requests: Request[] = []
  let working = false
  const client = connect(url, {
    ...admin,
    clientId,
    protocolVersion: 4,
    clean: true,
    resubscribe: false,
    reconnectOnConnackError: true,
  })
  const unreachable = (why: string, cause?: unknown) =>
    new BrimError('BROKER_UNREACHABLE', `the broker ${url} ${why}`, {
      ...(cause === undefined ? {} : { cause }),
      hint: 'check that it runs with the dynamic-security plug-in: docs/brokers.md',
    })

  client.on('message', (topic, payload) => {
    if (topic !== responseTopic) return
    const answers = parse(payload)
    waiting.get(answers[0]?.correlationData ?? '')?.resolve(answers)
  })
  client.on('close', () => {
    for (const { reject } of waiting.values()) reject(unreachable('closed the connection before it had answered'))
  })

  /** Sends pending requests in batches: mosquitto rewrites its file for each message, and serves no client meanwhile. */
  async function work(): Promise<void> {
    if (working) return
    working = true
    while (requests.length > 0) {
      const batch = requests.splice(0, maxBatch)
      try {
        const answers = await ask(batch.flatMap(({ commands }) => commands))
        for (const { commands, resolve, reject } of batch) {
          const own = answers.splice(0, commands.length)
          const failed = own.find(({ error }) => error !== undefined && !alreadyDone.test(error))
          if (failed) reject(refused(`${failed.command}: ${failed.error}`))
          else resolve(own)
        }
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    working = false
  }

  async function ask(commands: readonly PluginCommand[]): Promise<PluginReply[]> {
    if (!client.connected) throw unreachable('is not connected')
    const correlationData = randomBytes(8).toString('hex')
    const answered = new Promise<PluginReply[]>((resolve, reject) => waiting.set(correlationData, { resolve, reject }))
    client.publish(requestTopic, JSON.stringify({ commands: commands.map((one) => ({ ...one, correlationData })) }), { qos: 1 })
    try {
      if (!(await withTimeout(answerTimeoutMs, answered, clock))) {
        // It is unknown which commands were executed: `onReconnect` compares everything.
        client.stream.destroy()
        throw unreachable(`did not execute the commands within ${answerTimeoutMs} ms`)
      }
      const answers = await answered
      if (answers.length !== commands.length) throw unreachable('did not answer every command')
      return answers
    } finally {
      waiting.delete(correlationData)
    }
  }

  /** @throws BrimError CONFIG_INVALID */
  async function listen(): Promise<void> {
    await client.subscribeAsync(responseTopic, { qos: 1 }).catch((cause: unknown) => {
      throw refused(`${admin.username} cannot subscribe to its answers`, cause)
    })
  }

  try {
    await connected(client, unreachable, { url, timeoutMs: options.connectTimeoutMs ?? 10_000, clock })
    // Registered before the first subscription is acknowledged: the connection may break and return before that.
    client.on('connect', () => {
      listen().then(options.onReconnect, (err: unknown) =>
        logger.error({ err }, 'answers of the broker not subscribed to after its return'),
      )
    })
    await listen()
  } catch (error) {
    client.end(true)
    throw error
  }
  // During an outage every attempt fails alike; the control link logs the outage once.
  client.on('error', (err) => logger.debug({ err }, 'broker administration failed'))
  return {
    get connected() {
      return client.connected
    },
    run: (commands) =>
      new Promise((resolve, reject) => {
        requests.push({ commands, resolve, reject })
        void work()
      }),
    close: () => client.endAsync(true),
  }
}

const refused = (why: string, cause?: unknown) =>
  new BrimError('CONFIG_INVALID', `the broker's dynamic-security plug-in refuses a command of the bridge: ${why}`, {
    ...(cause === undefined ? {} : { cause }),
    hint: 'check that --broker-admin-file names its dynamic-security administrator: docs/brokers.md',
  })

function parse(payload: Uint8Array): PluginReply[] {
  try {
    return Answers.parse(JSON.parse(Buffer.from(payload).toString())).responses
  } catch {
    return []
  }
}

interface Connecting {
  readonly url: string
  readonly timeoutMs: number
  readonly clock: Clock
}

async function connected(
  client: MqttClient,
  unreachable: (why: string, cause?: unknown) => BrimError,
  { url, timeoutMs, clock }: Connecting,
): Promise<void> {
  let lastError: unknown
  const outcome = new Promise<void>((resolve, reject) => {
    client.on('error', (error) => {
      lastError = error
      if (isLoginRefused(error)) reject(wrongLogin(url, error))
    })
    client.once('connect', () => resolve())
  })
  if (!(await withTimeout(timeoutMs, outcome, clock))) throw unreachable(`did not answer within ${timeoutMs} ms`, lastError)
}

const wrongLogin = (url: string, cause: Error) =>
  new BrimError('NOT_AUTHORIZED', `the broker ${url} rejects its administrator's login`, {
    cause,
    hint: 'check name and password in --broker-admin-file',
  })
