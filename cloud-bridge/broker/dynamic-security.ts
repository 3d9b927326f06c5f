import { randomBytes } from 'node:crypto'
import { connect, type MqttClient } from 'mqtt'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Login } from './broker-secrets.ts'

const requestTopic = '$CONTROL/dynamic-security/v1'
const responseTopic = '$CONTROL/dynamic-security/v1/response'
/** Requests that are asked together. */
const mostAtOnce = 16
const answerTimeoutMs = 10_000
/** CONNACK return codes: bad user name or password, not authorised. */
const refusals = [4, 5]

/** One of the plug-in's commands: https://mosquitto.org/documentation/dynamic-security/ */
export interface Command {
  readonly command: string
  readonly [field: string]: unknown
}

const Answer = z.object({
  command: z.string(),
  error: z.string().optional(),
  data: z.unknown().optional(),
  correlationData: z.string(),
})
const Answers = z.object({ responses: z.array(Answer.catch({ command: '', data: null, correlationData: '' })) })
export type Answer = z.infer<typeof Answer>

/** What the plug-in says of a thing that is, or is not, there already: no failure where it was to be so. */
export const alreadySo = /^(?:Client|Role) (?:not found|already exists)$/

export interface DynamicSecurity {
  readonly connected: boolean
  /**
   * Does these one after the other, without anything in between.
   * @returns their answers in that order
   * @throws BrimError BROKER_UNREACHABLE; CONFIG_INVALID where one is refused for anything but `alreadySo`
   */
  run(commands: readonly Command[]): Promise<Answer[]>
  close(): Promise<void>
}

interface Request {
  readonly commands: readonly Command[]
  readonly resolve: (answers: Answer[]) => void
  readonly reject: (error: unknown) => void
}

export interface DynamicSecurityOptions {
  readonly url: string
  readonly clientId: string
  readonly admin: Login
  /** How long the first connection may take; 10 s by default. */
  readonly connectTimeoutMs?: number | undefined
  /** It was away and is back. */
  readonly onReturn: () => void
  readonly logger: Logger
}

/**
 * mosquitto's dynamic-security plug-in, driven over MQTT. Comes back by itself when the broker was away.
 * @throws BrimError BROKER_UNREACHABLE, NOT_AUTHORIZED, CONFIG_INVALID
 */
export async function connectDynamicSecurity(options: DynamicSecurityOptions): Promise<DynamicSecurity> {
  const { url, clientId, admin, logger } = options
  const waiting = new Map<string, { resolve: (answers: Answer[]) => void; reject: (error: BrimError) => void }>()
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
  const unanswered = (why: string, cause?: unknown) =>
    new BrimError('BROKER_UNREACHABLE', `the broker ${url} ${why}`, {
      ...(cause === undefined ? {} : { cause }),
      hint: 'does it run, with the dynamic-security plug-in? docs/brokers.md has its configuration',
    })

  client.on('message', (topic, payload) => {
    if (topic !== responseTopic) return
    const answers = parse(payload)
    waiting.get(answers[0]?.correlationData ?? '')?.resolve(answers)
  })
  client.on('close', () => {
    for (const { reject } of waiting.values()) reject(unanswered('went away before it had answered'))
  })

  /** What waits is asked together, some at a time: mosquitto writes its file anew with each command, and hears nobody meanwhile. */
  async function work(): Promise<void> {
    if (working) return
    working = true
    while (requests.length > 0) {
      const batch = requests.splice(0, mostAtOnce)
      try {
        const answers = await ask(batch.flatMap(({ commands }) => commands))
        for (const { commands, resolve, reject } of batch) {
          const own = answers.splice(0, commands.length)
          const failed = own.find(({ error }) => error !== undefined && !alreadySo.test(error))
          if (failed) reject(refused(`${failed.command}: ${failed.error}`))
          else resolve(own)
        }
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    working = false
  }

  async function ask(commands: readonly Command[]): Promise<Answer[]> {
    if (!client.connected) throw unanswered('is away')
    const correlationData = randomBytes(8).toString('hex')
    const answered = new Promise<Answer[]>((resolve, reject) => waiting.set(correlationData, { resolve, reject }))
    const timer = setTimeout(() => {
      waiting.get(correlationData)?.reject(unanswered(`did not do as told within ${answerTimeoutMs} ms`))
      // What it has done nobody knows: on its return all is looked at.
      client.stream.destroy()
    }, answerTimeoutMs)
    client.publish(requestTopic, JSON.stringify({ commands: commands.map((one) => ({ ...one, correlationData })) }), { qos: 1 })
    try {
      const answers = await answered
      if (answers.length !== commands.length) throw unanswered('did not answer all that it was told')
      return answers
    } finally {
      clearTimeout(timer)
      waiting.delete(correlationData)
    }
  }

  /** @throws BrimError CONFIG_INVALID */
  async function listen(): Promise<void> {
    await client.subscribeAsync(responseTopic, { qos: 1 }).catch((cause: unknown) => {
      throw refused(`${admin.username} may not read its answers`, cause)
    })
  }

  try {
    await connected(client, unanswered, { url, timeoutMs: options.connectTimeoutMs ?? 10_000 })
    // From now on: it may be gone and back before it has answered.
    client.on('connect', () => {
      listen().then(options.onReturn, (err: unknown) => logger.error({ err }, 'broker no longer to be driven'))
    })
    await listen()
  } catch (error) {
    client.end(true)
    throw error
  }
  // While the broker is away every attempt fails the same way: said once, by the control link.
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
  new BrimError('CONFIG_INVALID', `the broker's dynamic-security plug-in refuses what the bridge asks: ${why}`, {
    ...(cause === undefined ? {} : { cause }),
    hint: 'is that the administrator of its dynamic security? docs/brokers.md says how it is made',
  })

function parse(payload: Uint8Array): Answer[] {
  try {
    return Answers.parse(JSON.parse(Buffer.from(payload).toString())).responses
  } catch {
    return []
  }
}

function connected(
  client: MqttClient,
  unanswered: (why: string, cause?: unknown) => BrimError,
  { url, timeoutMs }: { url: string; timeoutMs: number },
): Promise<void> {
  return new Promise((resolve, reject) => {
    let last: unknown
    const timer = setTimeout(() => settle(() => reject(unanswered(`did not answer within ${timeoutMs} ms`, last))), timeoutMs)
    const settle = (how: () => void) => {
      clearTimeout(timer)
      client.off('error', failed)
      how()
    }
    const failed = (error: Error & { code?: unknown }) => {
      last = error
      if (!refusals.some((code) => code === error.code)) return
      const hint = 'are name and password those in --broker-admin-file?'
      const refusal = new BrimError('NOT_AUTHORIZED', `the broker ${url} does not let its administrator in`, {
        cause: error,
        hint,
      })
      settle(() => reject(refusal))
    }
    client.on('error', failed)
    client.once('connect', () => settle(resolve))
  })
}
