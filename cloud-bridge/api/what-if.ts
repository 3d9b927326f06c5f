import { type WhatIfEvent, whatIfOperations } from '../../core/wire/protocol/http/what-if.ts'
import { batchOf } from '../http/event-streams.ts'
import type { Routes } from '../http/router.ts'
import type { FleetSituation } from '../what-if/fleet-situation.ts'
import type { WhatIf } from '../what-if/what-if.ts'

/** `/v1/what-if`: what a simulation of the fleet says of other ways of answering. */
export function whatIfRoutes(whatIf: WhatIf, situationNow: () => FleetSituation): Routes {
  return (router) => {
    router.serve(whatIfOperations.situation, () => {
      const { trace: _, steps: __, ...situation } = situationNow()
      return situation
    })
    router.serve(whatIfOperations.run, ({ body, caller, closed, events }) => {
      caller.auditAs('what-if.run', body.goal, { ...body })
      const due: WhatIfEvent[] = []
      let isOver = false
      let wake = () => {}
      whatIf.start(situationNow(), body, closed, (event) => {
        due.push(event)
        isOver = event.progress === undefined
        wake()
      })
      return events({
        next: () => ({ ...batchOf(due.splice(0)), after: isOver ? 'end' : 'wait' }),
        subscribe(onEvent) {
          wake = onEvent
          return () => {
            wake = () => {}
          }
        },
      })
    })
  }
}
