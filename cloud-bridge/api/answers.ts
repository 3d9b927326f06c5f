import { z } from 'zod'
import { answerFormats, answerPaths } from '../../core/answer/api/answer-paths.ts'
import type { AnswersInProgress } from '../../core/answer/api/answers-in-progress.ts'
import type { KeptResponses } from '../../core/answer/api/kept-responses.ts'
import { deleteResponse, keptResponse } from '../../core/answer/api/read-responses.ts'
import { newHead, serveAnswers } from '../../core/answer/api/serve-answer.ts'
import { modelCard, modelCards, type Served } from '../../core/answer/api/served.ts'
import type { Embeddings } from '../../core/answer/embeddings/embeddings.ts'
import type { AnswerMeter } from '../../core/answer/endpoint/meter.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Tracer } from '../../core/kit/trace/tracer.ts'
import { answerOperations } from '../../core/wire/protocol/http/answers.ts'
import type { Operation } from '../../core/wire/protocol/http/operation.ts'
import { OwnResponse, type RouteRequest, type Routes } from '../http/router.ts'
import type { AnswerConnection, ResumableAnswers } from '../llm/resumable-answers.ts'

export interface AnswerRoutesOptions {
  readonly served: Served
  readonly embeddings: Embeddings
  /** Absent: no answer of the bridge can be continued. */
  readonly resumable: ResumableAnswers | undefined
  readonly kept: KeptResponses
  readonly meter: AnswerMeter
  readonly inProgress: AnswersInProgress
  /** Maximum size of a request. */
  readonly maxBodyBytes: number
  readonly tracer: Tracer
  readonly clock: Clock
  readonly logger: Logger
}

/** `/v1/chat/completions`, `/v1/completions`, `/v1/responses`, `/v1/embeddings`, `/v1/models`: OpenAI's API, answered by the bridge's own models. */
export function answerRoutes(options: AnswerRoutesOptions): Routes {
  const { served, embeddings, resumable, kept, meter, inProgress, maxBodyBytes, tracer, clock, logger } = options
  const optionsFor = ({ caller, stopping }: Pick<RouteRequest<Operation>, 'caller' | 'stopping'>) => ({
    clock,
    meter,
    logger: logger.child({ client: caller.actor.who }),
    parallel: true,
    tracer,
    stopping,
  })

  function connectionOf(request: Pick<RouteRequest<Operation>, 'caller' | 'stopping' | 'reply' | 'id'>): AnswerConnection {
    const { reply, id } = request
    return {
      destroy: () => reply.raw.destroy(),
      async send({ path, request: asked, stream }) {
        await serveAnswers(optionsFor(request), answerFormats[path]!, asked, reply, id, stream)
      },
    }
  }

  return (router) => {
    for (const { path, read } of answerPaths(kept)) {
      // The reader names the wrong field as OpenAI does.
      const operation = { ...operationAt[path], body: z.unknown(), maxBodyBytes }
      router.serve(operation, async (request) => {
        const { body, headers, caller, reply, id } = request
        const { client } = caller
        const { request: asked, format } = read(body, served, { client, tokensPerS: headers['x-brim-tokens-per-s'] })
        caller.takeAnswers(asked.answers.length)
        await inProgress.run(async () => {
          if (answerFormats[path] && resumable?.accepts(asked))
            await resumable.serve(path, asked, newHead(format, asked), client, connectionOf(request))
          else await serveAnswers(optionsFor(request), format, asked, reply, id)
        })
        return new OwnResponse()
      })
    }
    router.serve(answerOperations.rest, async (request) => {
      const { params, headers, caller } = request
      const after = tokensBefore(params.id, headers['last-event-id'])
      if (!resumable) throw new BrimError('ANSWER_UNKNOWN', 'this bridge has no answers that can be continued')
      await resumable.resume(params.id, caller.client, after, connectionOf(request))
      return new OwnResponse()
    })
    router.serve(answerOperations.response, ({ params: { id }, query: { stream }, caller: { client } }) =>
      keptResponse(kept, client, id, stream),
    )
    router.serve(answerOperations.deleteResponse, ({ params: { id }, caller: { client } }) => deleteResponse(kept, client, id))
    router.serve({ ...answerOperations.embeddings, body: z.unknown(), maxBodyBytes }, ({ body, caller, reply, stopping }) =>
      embeddings.respond(body, caller.client, reply, stopping),
    )
    router.serve(answerOperations.models, () => ({
      object: 'list' as const,
      data: [...modelCards(served), ...embeddings.cards],
    }))
    router.serve(answerOperations.model, ({ params: { id } }) => modelCard(id, served))
  }
}

const operationAt = {
  [answerOperations.chat.path]: answerOperations.chat,
  [answerOperations.completion.path]: answerOperations.completion,
  [answerOperations.responses.path]: answerOperations.responses,
}

/** @throws BrimError REQUEST_INVALID */
function tokensBefore(answer: string, lastEventId: string | string[] | undefined): number | undefined {
  if (lastEventId === undefined) return undefined
  const [, id, tokens] = /^(.+)\/(\d{1,15})$/.exec(String(lastEventId)) ?? []
  if (id === answer) return Number(tokens)
  throw new BrimError('REQUEST_INVALID', 'the header Last-Event-ID is not the id of an event of this answer', {
    hint: `send the last id that was received, like ${answer}/12, or no such header to get the whole answer`,
  })
}
