import type { SpendingLedger } from '../../agent/disco/spending-ledger.ts'
import type { AccountSpending } from '../../core/policy/disco/spending.ts'
import type { Account, BookChange } from '../../core/policy/disco/spending-book.ts'

/** What a ledger's book says now, and changes of it that are stored. */
export function spendingOf(ledger: SpendingLedger) {
  const { book } = ledger
  let reservations = 0
  const change = (one: BookChange) => {
    if (book.change(one, ledger.nowMs)) ledger.write(one)
  }
  return {
    spent: (account: Account) => book.spent(account, ledger.nowMs),
    reserved: (account: Account) => book.reserved(account),
    msUntil: (account: Account, figure: keyof AccountSpending, max: number) => book.msUntil(account, figure, max, ledger.nowMs),
    add: (account: Account, spending: AccountSpending) => change({ kind: 'add', account, spending }),
    reserve(account: Account, spending: AccountSpending) {
      reservations += 1
      const id = reservations
      change({ kind: 'reserve', id, account, spending })
      return {
        raise: (raised: AccountSpending) => change({ kind: 'raise', id, account, spending: raised }),
        settle: (spent: AccountSpending) => change({ kind: 'settle', id, account, spending: spent }),
      }
    },
  }
}
