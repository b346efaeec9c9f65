/**
 * Words for texts if the server does not count tokens. Each is one token, with and without a space before it, in r50k, cl100k
 * and o200k (GPT-2, GPT-4, GPT-4o; a test counts them). Each is frequent in any vocabulary of English text.
 */
const LIST = `
the and for you with that this are from new return not your can was get all will class public has man set more
part one they our time any over about work function which use else also who his some data when end other off
year like name need act her been may what back start only form look best under most find people want long final
read test every should know she well right pass very these case good after even now art file mark many way much
could while said used try number years event here play key log day last word text current great does sign home
such free did before online take own child view break top size sit show model using check world week son book
him think business again system call point being made each run place found open support create super line order
service develop custom state next life request those follow care same local style really side net pay game
object direct fun fact around rest between old say market term error must still plus without month offer going
both project put page report build love client come color cost second content too path few port full access
effect company message stand head feel level document team health sure invest field lot things table won protect
response always consider present change job range during keep review days little three water input interest
better room link big power index school hard code catch plan family double success got within date account bit
left group might element control services special red count bar total base another image area since body give
hot search air social contact record turn email action bed able required less allow address looking never target
material title ask context video personal grow sent buy options products money price version include children
law match map short update today blog working door based lead making far activity meet course done quality
research away light label sum easy food times past four mind along begin source throw house software exist cover
property ten given download width block called against results perfect large needs float thing why win low camp
learn status sort thought amount valid live having land tool display single talk node until length height clean
simple once items output select original card actually mean often either makes problem getting values deal
connect mass please later quick night specific ever story initial features details author below store continue
space question country instance cook face send example members study host extra city player major games media
button hold write yet stay save location news hours comes miss women share copy above friend provided focus due
reason season row walk pick wait close period move future writing ago track click task option handle common pack
clear created comment music users human subject network started role global tell though months box strong
complete known front points tax film whether series heart young fall respect watch bring install fast friends
stop history someone query phone pet popular
`;

export const WORDS: readonly string[] = LIST.trim().split(/\s+/);
