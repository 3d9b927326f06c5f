import { BrimError } from '../../core/kit/base/errors.ts'
import { adminOperations } from '../../core/wire/protocol/http/admin.ts'
import type { Routes } from '../http/router.ts'
import { type BrowserLogins, codeMs, loginMs } from '../identity/browser-logins.ts'
import { bearerOf } from '../identity/gate.ts'
import type { IdentityStore } from '../identity/store.ts'

/** `/v1/browser-logins`: a command logs its user's browser in. */
export function browserLoginRoutes(logins: BrowserLogins, store: Pick<IdentityStore, 'record'>): Routes {
  return (router) => {
    router.serve(adminOperations.createLogin, ({ caller, headers }) => {
      const { key } = caller
      // A login must not renew itself.
      if (!key || logins.keyOf(bearerOf(headers.authorization) ?? '')) throw needsKey
      caller.auditAs('login.create', key.id)
      return { code: logins.issue(key), validForS: codeMs / 1_000 }
    })
    router.serve(adminOperations.exchangeLogin, ({ body: { code }, from }) => {
      const { key, token } = logins.exchange(code) ?? {}
      if (key) {
        const actor = { who: `key:${key.name}/${key.id}`, from }
        store.record([{ actor, action: 'login.exchange', subject: key.id, outcome: token ? 'ok' : 'refused', detail: {} }])
      }
      if (token === undefined) throw badCode
      return { token, validForS: loginMs / 1_000 }
    })
  }
}

const again = { hint: '"brim login --browser" prints another URL' }
const needsKey = new BrimError('NOT_AUTHORIZED', 'a browser is logged in by an API key, not by another browser', again)
const badCode = new BrimError('IDENTITY_UNKNOWN', 'the code of this URL was used, or its minute is over', again)
