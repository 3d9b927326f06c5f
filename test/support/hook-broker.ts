import { Aedes, type AuthenticateError } from 'aedes'
import { postJson } from './post-json.ts'
import { type ServedBroker, serveBroker } from './served-broker.ts'

/** A broker that authorises clients by HTTP requests to the bridge, as EMQX's authenticator and authorizer do. */
export async function startHookBroker(bridgeUrl: string, secret: string): Promise<ServedBroker> {
  /** Client id → user name of its login. */
  const usernames = new Map<string, string>()
  const allowed = async (path: string, body: object) => {
    const answer = await postJson(bridgeUrl + path, body, { authorization: `Bearer ${secret}` })
    return answer.status === 200 && ((await answer.json()) as { result: string }).result === 'allow'
  }
  const authorize = (clientid: string, action: 'publish' | 'subscribe', topic: string) =>
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
      void authorize(client?.id ?? '', 'publish', topic).then((yes) => done(yes ? null : new Error('refused')))
    },
    authorizeSubscribe({ id }, subscription, done) {
      void authorize(id, 'subscribe', subscription.topic).then((yes) => done(null, yes ? subscription : null))
    },
  })
  return serveBroker(broker)
}
