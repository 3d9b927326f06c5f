import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Aedes, type AuthenticateError } from 'aedes'

export interface AskingBroker extends AsyncDisposable {
  readonly url: string
}

/** A broker that asks by HTTP who may do what, in the words of EMQX's HTTP authenticator and authorizer. */
export async function startAskingBroker(bridgeUrl: string, secret: string): Promise<AskingBroker> {
  /** client id → user name that it was let in with. */
  const usernames = new Map<string, string>()
  const allowed = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${secret}` }
    const answer = await fetch(bridgeUrl + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return answer.status === 200 && ((await answer.json()) as { result: string }).result === 'allow'
  }
  const mayDo = (clientid: string, action: 'publish' | 'subscribe', topic: string) =>
    allowed('/v1/hook/emqx/acl', { clientid, username: usernames.get(clientid), action, topic })
  const broker = await Aedes.createBroker({
    authenticate({ id: clientid }, username, password, done) {
      const body = { clientid, username, password: password?.toString() }
      void allowed('/v1/hook/emqx/auth', body).then((yes) => {
        if (yes) {
          usernames.set(clientid, username ?? '')
          return done(null, true)
        }
        const error: AuthenticateError = Object.assign(new Error('refused'), { returnCode: 5 })
        done(error, false)
      })
    },
    authorizePublish(client, { topic }, done) {
      void mayDo(client?.id ?? '', 'publish', topic).then((yes) => done(yes ? null : new Error('refused')))
    },
    authorizeSubscribe({ id }, subscription, done) {
      void mayDo(id, 'subscribe', subscription.topic).then((yes) => done(null, yes ? subscription : null))
    },
  })
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    broker.handle(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      await new Promise<void>((done) => broker.close(() => done()))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
