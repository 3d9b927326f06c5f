import type { FastifyInstance } from 'fastify'
import { PageFiles } from '../../core/answer/api/page.ts'
import { pageOperations } from '../../core/wire/protocol/http/page.ts'

/** They hold nothing of the device: the page asks for that with its user's key. */
export const pagePaths: readonly string[] = Object.values(pageOperations).map(({ path }) => path)

/** `/` and `/page/…`: the page, of this device alone. @param auth whether clients need a key */
export function addPageRoutes(app: FastifyInstance, auth: boolean): void {
  const files = new PageFiles()
  const { index, file } = pageOperations
  app.get(index.path, (request, reply) => {
    const send = files.document({ server: 'agent', auth }, request.headers)
    reply.hijack()
    send(reply.raw)
  })
  app.get<{ Params: { file: string } }>(file.path, (request, reply) => {
    const send = files.file(request.params.file, request.headers)
    reply.hijack()
    send(reply.raw)
  })
}
